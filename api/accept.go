package api

import (
	"mime"
	"strconv"
	"strings"
)

const (
	typeJSON    = "application/json"
	typeGeoJSON = "application/geo+json"
)

// negotiate chooses between JSON and GeoJSON by an Accept header (RFC 9110,
// section 12.5.1): of the ranges that match a type the most specific one counts,
// and the type with the higher weight wins. JSON is the choice in a tie, without a
// header, and where neither is wanted, since an answer of another type is more use
// than none. A malformed range is passed over.
func negotiate(accept string) string {
	json, geo := -1.0, -1.0 // weights; -1: not mentioned
	var jsonBy, geoBy int   // how specific the range was that said so
	for part := range strings.SplitSeq(accept, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		weigh := func(offer string, weight *float64, by *int) {
			specific := 0
			switch name {
			case offer:
				specific = 3
			case "application/*":
				specific = 2
			case "*/*":
				specific = 1
			}
			if specific > *by {
				*weight, *by = q, specific
			}
		}
		weigh(typeJSON, &json, &jsonBy)
		weigh(typeGeoJSON, &geo, &geoBy)
	}
	if geo > 0 && geo > json {
		return typeGeoJSON
	}
	return typeJSON
}
