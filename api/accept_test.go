package api

import "testing"

func TestNegotiate(t *testing.T) {
	const j, g = typeJSON, typeGeoJSON
	tests := []struct{ accept, want string }{
		{"", j},
		{"*/*", j},
		{"application/*", j},
		{"application/json", j},
		{"application/geo+json", g},
		{"Application/Geo+JSON", g},
		{"application/geo+json; charset=utf-8", g},
		{"application/geo+json, application/json", j}, // a tie
		{"application/geo+json, application/json;q=0.9", g},
		{"application/json;q=0.8,application/geo+json;q=0.9", g},
		{"application/json;q=0.9,application/geo+json;q=0.8", j},
		{"application/geo+json;q=0.5, */*;q=0.1", g},
		{"application/geo+json;q=0.1, */*;q=0.5", j},
		{"application/json;q=0, */*", g},
		{"application/geo+json;q=0, */*", j},
		{"application/geo+json;q=0", j},
		{"application/*;q=0.5, application/json;q=0.4", g},
		{"application/geo+json;q=2, application/json;q=0.1", j}, // not a weight
		{"application/geo+json;q=NaN", j},
		{"application/geo+json;q=x", j},
		{"text/html, application/xhtml+xml, */*;q=0.8", j},
		{"text/html", j},
		{"a;q,application/geo+json", g},
		{"application/geo+json;q=0.9;level=1", g},
	}
	for _, tt := range tests {
		if got := negotiate(tt.accept); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.accept, got, tt.want)
		}
	}
}
