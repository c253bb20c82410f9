// Package report writes what a run of the laboratory (result.Run) found as
// files: report.html for people, report.md for a repository, report.json for
// machines, and the charts as SVG.
//
// It measures nothing and judges nothing. Its neighbours: bench/report/digest
// prepares figures and plans, bench/report/verdict says what to use,
// bench/report/chart draws, bench/report/markdown writes report.md, and bench/plan
// reads plans and pairs their nodes.
//
// # The page
//
// report.html is one file that asks for nothing else: it can be opened from a
// disk, sent and kept. It is written by html/template, which escapes what comes
// from the data, and holds a Content-Security-Policy that allows no request and
// no script but its own, by its hash. Its script is plain JavaScript without a
// framework, because there are two views to draw and nothing to build; without
// the script everything can be read but the choice among all plans.
//
// Any two plans can be set side by side. Which node belongs to which is what
// plan.Diff says: pairings are computed here and put into the page as lists of
// indices, so that there is one alignment and not a second one in JavaScript.
//
// # Known limits
//
//   - In the page, conditions and arguments are cut to about 500 bytes and SQL to
//     2,000, and parts of a statement that come many times stand there once. The
//     page says so at the place; they are whole in report.json.
//   - A page holds about 1,000 plans in 1 to 2 MB. Each is paired with each: 5,000
//     plans would still work, but take long to write.
//   - Colours need a browser with light-dark(): Chrome 123, Firefox 120, Safari 17.5.
package report
