package store_test

import (
	"errors"
	"fmt"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Normalize tells everything that is wrong at once.
func ExampleQuery_Normalize() {
	q := store.Query{Center: geo.LatLng{Lat: 91, Lng: 10}, Radius: 500, Limit: 1000}
	var invalid *store.InvalidError
	if err := q.Normalize(); errors.As(err, &invalid) {
		for _, f := range invalid.Faults {
			fmt.Printf("%s: %s\n", f.Field, f.Reason)
		}
	}
	// Output:
	// lat: 91 is not -90..90 degrees
	// limit: 1000 is not 1..200
}
