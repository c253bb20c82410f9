package mysql

import (
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
)

// numbers returns the cell numbers of a place, for the columns of the same names.
func numbers(p geo.LatLng) (s2, h3, geohash int64) {
	return cell.S2.Index(p), cell.H3.Index(p), cell.Geohash.Index(p)
}
