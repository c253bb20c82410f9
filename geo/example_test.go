package geo_test

import (
	"errors"
	"fmt"

	"github.com/nearjob/nearjob/geo"
)

func ExampleNewLatLng() {
	p, err := geo.NewLatLng(-16.5, -180)
	fmt.Println(p, err)

	_, err = geo.NewLatLng(126.978, 37.5665) // swapped
	var re *geo.RangeError
	fmt.Println(errors.As(err, &re), err)
	// Output:
	// -16.5,180 <nil>
	// true lat is 126.978, must be from -90 to 90 degrees
}

func ExampleLatLng_Distance() {
	seoul := geo.LatLng{Lat: 37.5665, Lng: 126.978}
	busan := geo.LatLng{Lat: 35.1796, Lng: 129.0756}
	fmt.Printf("%.3f m\n", seoul.Distance(busan))
	// Output: 325111.706 m
}

func ExampleOrigin() {
	o := geo.NewOrigin(geo.LatLng{Lat: 37.5665, Lng: 126.978})
	for _, q := range []geo.LatLng{{Lat: 37.57, Lng: 126.98}, {Lat: 37.5796, Lng: 126.977}} {
		fmt.Printf("%.1f m\n", o.Distance(q))
	}
	// Output:
	// 427.2 m
	// 1459.3 m
}

func ExampleCircle_Bound() {
	suva := geo.LatLng{Lat: -16.8, Lng: 179.97}
	b := geo.Circle{Center: suva, Radius: 10_000}.Bound()
	fmt.Printf("%.3f..%.3f, %.3f..%.3f\n", b.South, b.North, b.West, b.East)
	fmt.Println(b.CrossesAntimeridian())
	// Output:
	// -16.890..-16.710, 179.876..-179.936
	// true
}

func ExampleRing() {
	r := geo.Ring{Center: geo.LatLng{Lat: 90, Lng: 0}, Inner: 100_000, Outer: 200_000}
	fmt.Println(r.Contains(geo.LatLng{Lat: 89.5, Lng: 10}), r.Contains(geo.LatLng{Lat: 88.5, Lng: -170}))
	// Output: false true
}

func ExampleRect_Split() {
	r, err := geo.NewRect(-20, 170, -10, -170)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range r.Split() {
		fmt.Println(s.West, s.East)
	}
	// Output:
	// 170 180
	// -179.99999999999997 -170
}

func ExampleRect_MinDistance() {
	r := geo.Rect{South: 37, West: 126, North: 38, East: 127}
	p := geo.LatLng{Lat: 37.5, Lng: 128}
	fmt.Printf("%.0f to %.0f m\n", r.MinDistance(p), r.MaxDistance(p))
	// Output: 88215 to 185544 m
}
