package table

import (
	"slices"
	"strings"
)

// nearest returns the name that was probably meant, or "".
func nearest(name string, among []string) string {
	best, least := "", max(1, len([]rune(name))/3)+1
	lower := strings.ToLower(name)
	if isLongitude(lower) {
		if i := slices.IndexFunc(among, func(a string) bool { return isLongitude(strings.ToLower(a)) }); i >= 0 {
			return among[i]
		}
	}
	for _, a := range among {
		d := edits(lower, strings.ToLower(a))
		// "latitude" for "lat", and the other way round.
		if l := strings.ToLower(a); d >= least && min(len(l), len(lower)) >= 3 && (strings.HasPrefix(l, lower) || strings.HasPrefix(lower, l)) {
			d = least - 1
			if best != "" {
				continue
			}
		}
		if d < least {
			best, least = a, d
		}
	}
	return best
}

// isLongitude: the usual names have little in common.
func isLongitude(name string) bool {
	return slices.Contains([]string{"lng", "lon", "long", "longitude"}, name)
}

// edits is the Damerau-Levenshtein distance of neighbours (optimal string alignment): how
// many characters to add, leave out, replace or swap with the next one.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		d[i][0] = i
	}
	for j := range y {
		d[0][j+1] = j + 1
	}
	for i := range x {
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			best := min(d[i][j+1]+1, d[i+1][j]+1, d[i][j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				best = min(best, d[i-1][j-1]+1)
			}
			d[i+1][j+1] = best
		}
	}
	return d[len(x)][len(y)]
}
