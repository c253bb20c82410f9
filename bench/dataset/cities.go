package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/nearjob/nearjob/geo"
)

// City is a place of 15,000 people or more.
type City struct {
	Name       string
	At         geo.LatLng
	Country    string // ISO 3166-1, two letters
	Population int64
}

// citiesTSV holds name, latitude, longitude, country and population: columns 2,
// 5, 6, 9 and 15 of GeoNames' cities15000, made by
//
//	cut -f2,5,6,9,15 cities15000.tsv | gzip -9n > cities.tsv.gz
//
// The data is by GeoNames (https://www.geonames.org), licensed under CC BY 4.0.
//
//go:embed cities.tsv.gz
var citiesTSV []byte

// AllCities returns the 26,416 cities that the package carries. It unpacks them
// at each call, in some milliseconds.
func AllCities() []City {
	cs, err := readCities(citiesTSV)
	if err != nil {
		panic("dataset: the embedded cities cannot be read: " + err.Error())
	}
	return cs
}

func readCities(packed []byte) ([]City, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	cs := make([]City, 0, 27_000)
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("line %d has %d columns, not 5", len(cs)+1, len(f))
		}
		lat, err1 := strconv.ParseFloat(f[1], 64)
		lng, err2 := strconv.ParseFloat(f[2], 64)
		people, err3 := strconv.ParseInt(f[4], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("line %d has a number that cannot be read", len(cs)+1)
		}
		cs = append(cs, City{f[0], geo.LatLng{Lat: lat, Lng: lng}, f[3], people})
	}
	return cs, lines.Err()
}
