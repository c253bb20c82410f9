// Package geo is Nearjob's geometry on the sphere: points, distances, circles,
// rings and boxes, right at the antimeridian and at both poles.
//
// It is the one place where a distance is decided. Everything else (SQL, cell
// covers, the R-tree) only narrows down which points have their distance
// computed here. A distance has the same bits on every machine, so that pages
// and cursors made on one continue on another: see [LatLng.Distance]. Boxes and
// bounds make no such promise; they carry margins instead, and err on the side
// that loses no point.
//
// Angles are in degrees and lengths in metres throughout. Only constructors and
// Validate methods check their input; everything else expects valid points.
//
// The package is not a general geometry library: there are no polygons, no
// ellipsoid and no projections. On the ellipsoid, distances differ from these by
// up to 0.56 %. It needs the standard library only, does no I/O and takes no
// context. Its neighbour geo/cell covers circles by cells.
package geo
