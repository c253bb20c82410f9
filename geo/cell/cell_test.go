package cell

var schemes = []Scheme{Geohash, H3, S2}
