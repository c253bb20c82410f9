// Package cell covers circles and rings on the sphere by cells of a grid, as
// ranges of numbers that a database can read from an ordinary B-tree.
//
// There are three grids: [Geohash], [H3] and [S2]. Each files every point under one
// cell of its finest level, known by a non-negative 63-bit number, and numbers
// its cells so that whatever is filed under a coarser cell is one contiguous range.
// So one column at the finest level serves covers of every level.
//
// [Cover] goes down the hierarchy from the roots and keeps what can hold a point
// of the ring. It needs no neighbours of cells, which libraries get wrong at the
// antimeridian, the poles and H3's pentagons; all that it relies on is that a
// point is filed under exactly one child of the cell that it is filed under, and that
// the bounds of [Scheme.Bounder] hold.
//
// The package does not compute polygons of cells, and covers nothing but rings.
// Its neighbours: package geo has the distances; store/search reads the ranges.
//
// S2 is computed by github.com/golang/geo and H3 by github.com/uber/h3-go, the
// grids' reference implementations for Go, both under the Apache License 2.0 and
// maintained by the grids' authors. H3's is C, called through cgo.
package cell
