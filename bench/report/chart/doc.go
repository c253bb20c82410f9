// Package chart draws the charts of a report (result.Chart) as SVG.
//
// The drawings follow the reader's theme: axes and texts have the colour of the
// text around them, and each line has a colour for light and one for dark, from a
// palette that people who do not tell red from green can use. Every line has a
// marker and a dash of its own as well, so that black on white is enough. They have
// no size of their own but a viewBox, texts are texts, and a title and a
// description say in words what is drawn. Equal charts give equal bytes.
//
// A standalone drawing (the default) holds its colours, for a file that a page
// shows as an image. An inline one takes the colours from CSS variables of the page
// where it has them (see Variables), so that a switch of the theme in the page
// reaches the chart.
//
// The drawing is done by gonum.org/v1/plot, which knows axes, glyphs and text metrics;
// its SVG has fixed colours and sizes, so each colour is drawn as a mark that is
// replaced in the end. It panics on values that an axis cannot hold, so those are
// taken out before, and the drawing says so: see Check.
//
// It computes no figures: OfCases only arranges those of a run. Its neighbours:
// bench/result holds charts, bench/report puts them into a page and
// bench/report/markdown beside a text.
//
// # Known limits
//
//   - A strategy has the same colour, marker and dash in every chart. Other lines
//     take what the strategies in their chart leave, so that their looks depend on
//     the chart. From the ninth line on, colours come again with other dashes.
//   - Texts are measured with the metrics of Liberation Sans and shown in it, Arial
//     or Helvetica, which have the same; in another font they can be wider.
package chart
