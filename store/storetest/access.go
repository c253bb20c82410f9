package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var (
	all   = store.Match{OpenAt: -1}
	earth = geo.Rect{South: -90, West: -180, North: 90, East: 180}

	cellIndexes = []store.Index{store.IndexGeohash, store.IndexH3, store.IndexS2}
	boxIndexes  = []store.Index{store.IndexLatLng, store.IndexSpatial}
)

// wholeIndexes returns an access to all rows with a place by each index.
func wholeIndexes() (as []store.Access) {
	for _, x := range boxIndexes {
		as = append(as, store.Access{Index: x, Rects: []geo.Rect{earth}})
	}
	for _, x := range cellIndexes {
		as = append(as, store.Access{Index: x, Ranges: []store.Interval{{Lo: math.MinInt64, Hi: math.MaxInt64}}})
	}
	return as
}

// candidate is what the search tables have to hold of a job. Category, Employer
// and Number are left out.
func candidate(j *store.Job) store.Candidate {
	return store.Candidate{ID: j.ID, At: j.At, Pay: j.Pay.Amount, Posted: store.Millis(j.Posted), Expires: store.ExpiryMillis(j.Expires)}
}

// accepts says whether a match wants a job, by the words of [store.Match].
func accepts(m *store.Match, j *store.Job) bool {
	posted := j.Posted.UnixMilli()
	return (j.Expires.IsZero() || j.Expires.UnixMilli() > m.OpenAt) &&
		(len(m.Categories) == 0 || slices.Contains(m.Categories, j.Category)) &&
		j.Pay.Amount >= m.MinPay &&
		(m.PostedFrom == 0 || posted >= m.PostedFrom) &&
		(m.PostedTo == 0 || posted <= m.PostedTo) &&
		(m.Employer == "" || j.Employer == m.Employer)
}

// read returns the candidates of an access.
func read(t *testing.T, e store.Reader, a store.Access) (cs []store.Candidate) {
	t.Helper()
	n, err := e.Read(t.Context(), a, func(some []store.Candidate) error {
		cs = append(cs, some...)
		// The slice is the engine's again after the call: nobody may depend on it.
		clear(some)
		return nil
	})
	if err != nil {
		t.Fatalf("Read %s: %v", showAccess(a), err)
	}
	if a.Index == store.IndexSpatial && a.Limit == 0 {
		// The one index by which a row may come twice.
		seen := make(map[store.Candidate]bool, len(cs))
		cs = slices.DeleteFunc(cs, func(c store.Candidate) bool {
			twice := seen[c]
			seen[c] = true
			return twice
		})
	}
	if n < 1 && len(cs) > 0 {
		t.Errorf("Read %s returned %d rows by %d statements", showAccess(a), len(cs), n)
	}
	return cs
}

// showAccess prints an access for people.
func showAccess(a store.Access) string {
	s := fmt.Sprintf("%+v", a)
	if a.Window != nil {
		s += fmt.Sprintf(" window %+v", *a.Window)
	}
	if a.Near != nil {
		s += fmt.Sprintf(" near %+v", *a.Near)
	}
	if a.After != nil {
		s += fmt.Sprintf(" after %+v", *a.After)
	}
	if len(s) > 2000 {
		s = s[:2000] + "..."
	}
	return s
}

func idsOf(cs []store.Candidate) []store.ID {
	ids := make([]store.ID, len(cs))
	for i := range cs {
		ids[i] = cs[i].ID
	}
	return ids
}

// sameIDs compares two lists of ids as sets, in which none may come twice.
func sameIDs(t *testing.T, what string, got, want []store.ID) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if slices.Equal(got, want) {
		return
	}
	var missing, extra []store.ID
	for i, j := 0, 0; i < len(got) || j < len(want); {
		switch {
		case j == len(want) || i < len(got) && got[i] < want[j]:
			extra = append(extra, got[i])
			i++
		case i == len(got) || got[i] > want[j]:
			missing = append(missing, want[j])
			j++
		default:
			i, j = i+1, j+1
		}
	}
	t.Errorf("%s: got %d, want %d; missing %.10v, too much or twice %.10v", what, len(got), len(want), missing, extra)
}

// sameCandidates compares candidates in any order, Category, Employer and Number
// left out.
func sameCandidates(t *testing.T, what string, got, want []store.Candidate) {
	t.Helper()
	sameIDs(t, what, idsOf(got), idsOf(want))
	byID := make(map[store.ID]store.Candidate, len(want))
	for _, c := range want {
		byID[c.ID] = c
	}
	for _, c := range got {
		c.Category, c.Employer, c.Number = "", "", 0
		if w, ok := byID[c.ID]; ok && (c != w || math.Float64bits(c.At.Lat) != math.Float64bits(w.At.Lat) || math.Float64bits(c.At.Lng) != math.Float64bits(w.At.Lng)) {
			t.Errorf("%s: candidate %+v, want %+v", what, c, w)
			return
		}
	}
}

// accessTest is an engine with jobs of all kinds of places.
type accessTest struct {
	e      store.Engine
	r      *rand.Rand
	placed []store.Job // open
	remote []store.Job // open
}

func testAccess(t *testing.T, e store.Engine) {
	r := rand.New(rand.NewPCG(seed(t), 300))
	x := accessTest{e: e, r: r}
	jobs := makeJobs(t, r, 3000, func(r *rand.Rand, n int) geo.LatLng { return shapes[n%len(shapes)].place(r, n/len(shapes)) })
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	for _, j := range jobs {
		switch {
		case j.State != store.Open:
		case j.Remote:
			x.remote = append(x.remote, j)
		default:
			x.placed = append(x.placed, j)
		}
	}
	if len(x.placed) < 2000 || len(x.remote) < 50 {
		t.Fatalf("%d jobs with a place and %d without are too few for the test", len(x.placed), len(x.remote))
	}
	t.Run("Match", x.testMatch)
	t.Run("Rects", x.testRects)
	t.Run("Ranges", x.testRanges)
	t.Run("Window", x.testWindow)
	t.Run("Near", x.testNear)
	t.Run("NearestFirst", x.testNearestFirst)
	t.Run("Limit", x.testLimit)
	t.Run("Remote", x.testRemote)
	t.Run("Explain", x.testExplain)
	t.Run("Refused", x.testRefused)
}

// match returns a random match: with one condition, several, or none.
func (x *accessTest) match() store.Match {
	m := store.Match{OpenAt: store.Millis(clock)}
	some := func() bool { return x.r.IntN(4) == 0 }
	if some() {
		for range 1 + x.r.IntN(3) {
			m.Categories = append(m.Categories, pick(x.r, categories))
		}
		slices.Sort(m.Categories)
		m.Categories = slices.Compact(m.Categories)
	}
	if some() {
		m.MinPay = int64(1+x.r.IntN(50)) * 1000
	}
	// Bounds are times at which jobs were posted.
	if some() {
		m.PostedFrom = store.Millis(pick(x.r, x.placed).Posted)
	}
	if some() {
		m.PostedTo = store.Millis(pick(x.r, x.placed).Posted)
	}
	if some() {
		m.Employer = pick(x.r, employers)
	}
	if some() {
		m.OpenAt += int64(x.r.IntN(3)) - 1
	}
	return m
}

// check reads an access and compares with the jobs that it describes, by in.
func (x *accessTest) check(t *testing.T, a store.Access, in func(*store.Job) bool) {
	t.Helper()
	var want []store.Candidate
	for i := range x.placed {
		if j := &x.placed[i]; in(j) && accepts(&a.Match, j) {
			want = append(want, candidate(j))
		}
	}
	got := read(t, x.e, a)
	sameCandidates(t, showAccess(a), got, want)
	for _, c := range got {
		if !a.Match.Accepts(&c) {
			t.Errorf("%s: candidate %+v lacks what the match is about", showAccess(a), c)
			break
		}
	}
}

func (x *accessTest) testMatch(t *testing.T) {
	for range 25 {
		m := x.match()
		for _, a := range append(wholeIndexes(), store.Access{Index: store.NoIndex}) {
			for _, a.Force = range []bool{false, true} {
				a.Match = m
				x.check(t, a, func(*store.Job) bool { return true })
			}
		}
	}
}

func (x *accessTest) testRects(t *testing.T) {
	box := func(south, west, north, east float64) []geo.Rect {
		return geo.Rect{South: south, West: west, North: north, East: east}.Split()
	}
	cases := [][]geo.Rect{
		{}, // no boxes: no rows
		{earth},
		box(90, -180, 90, 180), box(-90, -180, -90, 180), // the poles
		box(math.Nextafter(90, 0), -180, 90, 180), box(-90, -180, -89, 180), box(80, 45, 90, 45), box(80, 45, 90, 135),
		box(-90, 180, 90, 180), box(-90, -180, 90, -180), // the antimeridian, written both ways
		box(-20, 179, -10, -179), box(-20, 179, -10, 180), box(-20, -180, -10, -179), box(-90, 10, 90, -10),
		box(-90, -179, 90, 179), box(-90, -90, 90, 90), box(-90, 0, 90, 180), box(0, -180, 90, 180), // wider than half the earth
		box(0, 0, 0, 0), box(40.7142, -74.0064, 40.7142, -74.0064), // points
		box(40.7142, -74.0064, 40.7142, math.Nextafter(-74.0064, 0)),
		box(10, 10, 20, 20), // nothing there
	}
	for range 60 {
		a, b := pick(x.r, x.placed).At, pick(x.r, x.placed).At
		switch x.r.IntN(4) {
		case 0: // with jobs in two corners
		case 1: // just one job
			b = a
		case 2: // near one
			w := math.Pow(10, 2-8*x.r.Float64())
			b = geo.LatLng{Lat: max(-90, a.Lat-w), Lng: wrap(a.Lng - w)}
			a = geo.LatLng{Lat: min(90, a.Lat+w), Lng: wrap(a.Lng + w)}
		case 3: // just beside one
			a.Lng = math.Nextafter(a.Lng, b.Lng)
		}
		cases = append(cases, box(min(a.Lat, b.Lat), b.Lng, max(a.Lat, b.Lat), a.Lng))
	}
	// Several at once.
	grid := []geo.Rect{}
	for lat := -90.0; lat < 90; lat += 20 {
		for lng := -175.0; lng < 170; lng += 30 {
			grid = append(grid, geo.Rect{South: lat, West: lng, North: lat + 15, East: lng + 20})
		}
	}
	cases = append(cases, grid)
	for n, rects := range cases {
		m := store.Match{OpenAt: store.Millis(clock)}
		if n%2 == 1 {
			m = x.match()
		}
		for _, index := range boxIndexes {
			for _, force := range []bool{false, true} {
				x.check(t, store.Access{Index: index, Rects: rects, Match: m, Force: force}, func(j *store.Job) bool {
					return slices.ContainsFunc(rects, func(r geo.Rect) bool { return r.Contains(j.At) })
				})
			}
		}
	}
}

// numbers returns the cell number of each job with a place, by what a window over
// all of them says.
func (x *accessTest) numbers(t *testing.T, index store.Index) map[store.ID]int64 {
	t.Helper()
	w := &store.Window{Lo: math.MinInt64, At: math.MinInt64, Hi: math.MaxInt64, Each: 10 * len(x.placed)}
	got := read(t, x.e, store.Access{Index: index, Window: w, Match: all})
	if len(got) != len(x.placed) {
		t.Fatalf("a window over all of %s returned %d rows, want %d", index, len(got), len(x.placed))
	}
	numbers := make(map[store.ID]int64, len(got))
	distinct := make(map[int64]bool)
	for _, c := range got {
		numbers[c.ID] = c.Number
		distinct[c.Number] = true
	}
	if len(distinct) < len(got)/3 {
		t.Fatalf("%d rows have only %d numbers in %s", len(got), len(distinct), index)
	}
	return numbers
}

func (x *accessTest) testRanges(t *testing.T) {
	for _, index := range cellIndexes {
		numbers := x.numbers(t, index)
		sorted := make([]int64, 0, len(numbers))
		for _, n := range numbers {
			sorted = append(sorted, n)
		}
		slices.Sort(sorted)
		distinct := slices.Compact(slices.Clone(sorted))
		points := make([]store.Interval, len(distinct)) // thousands: more than one statement may carry
		for i, n := range distinct {
			points[i] = store.Interval{Lo: n, Hi: n}
		}
		gaps := make([]store.Interval, 0, len(distinct)) // all but the jobs
		for i := range len(distinct) - 1 {
			if distinct[i]+1 < distinct[i+1] {
				gaps = append(gaps, store.Interval{Lo: distinct[i] + 1, Hi: distinct[i+1] - 1})
			}
		}
		cases := [][]store.Interval{
			{}, points, gaps, points[:1], points[len(points)-1:],
			{{Lo: math.MinInt64, Hi: distinct[0] - 1}, {Lo: distinct[len(distinct)-1] + 1, Hi: math.MaxInt64}},
			{{Lo: math.MinInt64, Hi: math.MaxInt64}},
		}
		for range 20 {
			var ranges []store.Interval
			for i := x.r.IntN(len(sorted)); i < len(sorted) && len(ranges) < 30; i += x.r.IntN(60) {
				j := min(i+x.r.IntN(20), len(sorted)-1)
				lo, hi := sorted[i]+int64(x.r.IntN(2)), sorted[j]-int64(x.r.IntN(2))
				if lo <= hi && (len(ranges) == 0 || ranges[len(ranges)-1].Hi < lo) {
					ranges = append(ranges, store.Interval{Lo: lo, Hi: hi})
				}
				i = j + 1
			}
			cases = append(cases, ranges)
		}
		for n, ranges := range cases {
			m := store.Match{OpenAt: store.Millis(clock)}
			if n%2 == 1 {
				m = x.match()
			}
			in := func(j *store.Job) bool {
				n := numbers[j.ID]
				i, _ := slices.BinarySearchFunc(ranges, n, func(v store.Interval, n int64) int { return cmp.Compare(v.Hi, n) })
				return i < len(ranges) && ranges[i].Lo <= n
			}
			for _, force := range []bool{false, true} {
				x.check(t, store.Access{Index: index, Ranges: ranges, Match: m, Force: force}, in)
			}
		}
	}
}

func (x *accessTest) testWindow(t *testing.T) {
	const end = math.MaxInt64
	for _, index := range cellIndexes {
		number := x.numbers(t, index)
		sorted := slices.SortedFunc(slices.Values(x.placed), func(a, b store.Job) int { return cmp.Compare(number[a.ID], number[b.ID]) })
		first, last := number[sorted[0].ID], number[sorted[len(sorted)-1].ID]
		middle := number[sorted[len(sorted)/2].ID]
		most := mostFrequent(number)
		cases := []store.Window{
			{Lo: 0, At: 0, Hi: end, Each: 10}, {Lo: 0, At: end, Hi: end, Each: 10}, // an empty side
			{Lo: 0, At: first, Hi: end, Each: 1}, {Lo: 0, At: last, Hi: end, Each: 1}, {Lo: 0, At: last + 1, Hi: end, Each: 3},
			{Lo: middle, At: middle, Hi: middle, Each: 5}, {Lo: first, At: middle, Hi: last, Each: 2},
			{Lo: middle - 1, At: middle, Hi: middle + 1, Each: 100}, {Lo: 0, At: middle, Hi: end, Each: 2 * len(sorted)},
			{Lo: 0, At: most, Hi: end, Each: 7}, {Lo: 0, At: most + 1, Hi: end, Each: 7}, // in the midst of equal numbers
			{Lo: most, At: most, Hi: most, Each: 3}, {Lo: 0, At: middle, Hi: end, Each: 0},
		}
		for range 40 {
			v := []int64{number[pick(x.r, sorted).ID], number[pick(x.r, sorted).ID], number[pick(x.r, sorted).ID]}
			slices.Sort(v)
			cases = append(cases, store.Window{Lo: v[0], At: v[1], Hi: v[2], Each: 1 + x.r.IntN(40)})
		}
		for n, w := range cases {
			m := x.match() // which but for OpenAt does not count
			a := store.Access{Index: index, Window: &w, Match: m, Force: n%2 == 1}
			x.checkWindow(t, a, sorted, number)
		}
	}
}

// mostFrequent returns the number that most jobs have.
func mostFrequent(number map[store.ID]int64) (most int64) {
	times := make(map[int64]int)
	for _, n := range number {
		if times[n]++; times[n] > times[most] {
			most = n
		}
	}
	return most
}

func (x *accessTest) checkWindow(t *testing.T, a store.Access, sorted []store.Job, number map[store.ID]int64) {
	t.Helper()
	w := a.Window
	var above, below []int64
	open := func(j *store.Job) bool { return j.Expires.IsZero() || j.Expires.UnixMilli() > a.Match.OpenAt }
	for i := range sorted {
		if n := number[sorted[i].ID]; open(&sorted[i]) && w.At <= n && n <= w.Hi && len(above) < w.Each {
			above = append(above, n)
		}
	}
	for i := len(sorted) - 1; i >= 0; i-- {
		if n := number[sorted[i].ID]; open(&sorted[i]) && w.Lo <= n && n < w.At && len(below) < w.Each {
			below = append(below, n)
		}
	}
	byID := make(map[store.ID]*store.Job)
	for i := range sorted {
		byID[sorted[i].ID] = &sorted[i]
	}
	var gotAbove, gotBelow []int64
	var got, want []store.Candidate
	for _, c := range read(t, x.e, a) {
		if j := byID[c.ID]; j == nil || !open(j) || number[c.ID] != c.Number {
			t.Errorf("%s: %+v is not a row of it", showAccess(a), c)
			continue
		} else {
			got, want = append(got, c), append(want, candidate(j))
		}
		// Each side comes in order, away from At.
		if c.Number >= w.At {
			gotAbove = append(gotAbove, c.Number)
		} else {
			gotBelow = append(gotBelow, c.Number)
		}
	}
	sameCandidates(t, showAccess(a), got, want)
	if !slices.Equal(gotAbove, above) || !slices.Equal(gotBelow, below) {
		t.Errorf("%s: numbers above %v, want %v; below %v, want %v", showAccess(a), gotAbove, above, gotBelow, below)
	}
}

// sqlSlack is what SQL's distance may be off, in metres: half the digits of a
// haversine are lost towards the antipode.
func sqlSlack(d float64) float64 {
	if d > geo.MaxDistance-100_000 {
		return 1
	}
	return 1e-3 + 1e-9*d
}

func (x *accessTest) testNear(t *testing.T) {
	for range 40 {
		ring := geo.Ring{Center: pick(x.r, x.placed).At, Outer: math.Inf(1)}
		if x.r.IntN(3) == 0 {
			ring.Center = anywhere(x.r)
		}
		switch x.r.IntN(4) {
		case 0:
			ring.Outer = 0
		case 1: // to just a job
			ring.Outer = ring.Center.Distance(pick(x.r, x.placed).At)
		case 2:
			ring.Outer = math.Pow(10, 7.3*x.r.Float64())
		}
		if x.r.IntN(3) == 0 {
			ring.Inner = min(ring.Outer, geo.MaxDistance) * x.r.Float64()
		}
		m := x.match()
		bound := geo.Circle{Center: ring.Center, Radius: ring.Outer}.Bound().Split()
		as := append(wholeIndexes(), store.Access{Index: store.NoIndex},
			store.Access{Index: store.IndexLatLng, Rects: bound}, store.Access{Index: store.IndexSpatial, Rects: bound})
		for _, a := range as {
			a.Near, a.Match = &ring, m
			got := read(t, x.e, a)
			// Within the slack either answer is right.
			may := make(map[store.ID]bool, len(got))
			for _, c := range got {
				may[c.ID] = true
			}
			var want []store.ID
			for i := range x.placed {
				j := &x.placed[i]
				d := ring.Center.Distance(j.At)
				s := sqlSlack(d)
				surely := ring.Inner+s <= d && d <= ring.Outer-s || ring.Inner == 0 && d <= ring.Outer-s
				maybe := ring.Inner-s <= d && d <= ring.Outer+s
				if accepts(&m, j) && (surely || maybe && may[j.ID]) {
					want = append(want, j.ID)
				}
			}
			sameIDs(t, showAccess(a), idsOf(got), want)
		}
	}
}

func (x *accessTest) testNearestFirst(t *testing.T) {
	for range 60 {
		ring := geo.Ring{Center: pick(x.r, x.placed).At, Outer: math.Inf(1)}
		if x.r.IntN(3) == 0 {
			ring.Center = anywhere(x.r)
		}
		if x.r.IntN(2) == 0 {
			ring.Outer = math.Pow(10, 3+4*x.r.Float64())
		}
		m := x.match()
		limit := 1 + x.r.IntN(250)
		bound := geo.Circle{Center: ring.Center, Radius: ring.Outer}.Bound().Split()
		for _, a := range []store.Access{{Index: store.NoIndex}, {Index: store.IndexLatLng, Rects: bound}, {Index: store.IndexSpatial, Rects: bound}} {
			a.Near, a.Match, a.Order, a.Limit = &ring, m, store.NearestFirst, limit
			a.Force = x.r.IntN(2) == 0
			var want []float64
			for i := range x.placed {
				if d := ring.Center.Distance(x.placed[i].At); accepts(&m, &x.placed[i]) && d <= ring.Outer {
					want = append(want, d)
				}
			}
			slices.Sort(want)
			want = want[:min(limit, len(want))]
			got := read(t, x.e, a)
			// A row at the very edge of the ring may be in or out.
			if abs := len(got) - len(want); abs < -1 || abs > 1 || len(got) > limit {
				t.Errorf("%s: %d rows, want %d", showAccess(a), len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if d := ring.Center.Distance(got[i].At); math.Abs(d-want[i]) > 2*sqlSlack(d) {
					t.Errorf("%s: row %d is %v m away, want %v", showAccess(a), i, d, want[i])
					break
				}
			}
		}
	}
}

func (x *accessTest) testLimit(t *testing.T) {
	for _, a := range append(wholeIndexes(), store.Access{Index: store.NoIndex}) {
		for _, limit := range []int{1, 2, 77, 100_000} {
			a.Limit, a.Match = limit, x.match()
			want := 0
			for i := range x.placed {
				if accepts(&a.Match, &x.placed[i]) {
					want++
				}
			}
			if got := read(t, x.e, a); len(got) != min(want, limit) {
				t.Errorf("%s: %d rows, want %d", showAccess(a), len(got), min(want, limit))
			}
		}
	}
}

func (x *accessTest) testRemote(t *testing.T) {
	for n := range 150 {
		a := store.Access{Index: store.IndexRemote, Match: x.match(), Order: []store.Order{store.Unordered, store.LowestIDFirst, store.NewestFirst}[n%3], Force: x.r.IntN(2) == 0}
		byOrder := func(a2, b store.Job) int { return cmp.Compare(a2.ID, b.ID) }
		if a.Order == store.NewestFirst {
			byOrder = func(a2, b store.Job) int {
				return cmp.Or(b.Posted.Compare(a2.Posted), cmp.Compare(b.ID, a2.ID))
			}
		}
		if a.Order != store.Unordered {
			a.Limit = x.r.IntN(60)
			if x.r.IntN(2) == 0 {
				after := pick(x.r, x.remote)
				a.After = &store.RemoteAfter{ID: after.ID, Posted: store.Millis(after.Posted)}
			}
		}
		var want []store.Job
		for _, j := range x.remote {
			if a.After != nil && byOrder(j, store.Job{ID: a.After.ID, Posted: store.Time(a.After.Posted)}) <= 0 {
				continue
			}
			if accepts(&a.Match, &j) {
				want = append(want, j)
			}
		}
		slices.SortFunc(want, byOrder)
		if a.Limit > 0 {
			want = want[:min(a.Limit, len(want))]
		}
		wantCandidates := make([]store.Candidate, len(want))
		for i := range want {
			wantCandidates[i] = candidate(&want[i])
		}
		got := read(t, x.e, a)
		sameCandidates(t, showAccess(a), got, wantCandidates)
		if a.Order != store.Unordered && !slices.Equal(idsOf(got), idsOf(wantCandidates)) {
			t.Errorf("%s: not in order", showAccess(a))
		}
	}
}

func (x *accessTest) testExplain(t *testing.T) {
	at := x.placed[0].At
	rects := geo.Circle{Center: at, Radius: 5000}.Bound().Split()
	near := &geo.Ring{Center: at, Outer: 5000}
	match := store.Match{OpenAt: store.Millis(clock), Categories: []string{"café", "cleaning"}, MinPay: 5, PostedFrom: 1, PostedTo: math.MaxInt64, Employer: "O'Brien \"& Sons\""}
	as := append(wholeIndexes(),
		store.Access{Index: store.NoIndex, Near: near},
		store.Access{Index: store.NoIndex, Near: near, Order: store.NearestFirst, Limit: 10},
		store.Access{Index: store.IndexLatLng, Rects: rects, Near: near},
		store.Access{Index: store.IndexLatLng, Rects: rects, Near: near, Order: store.NearestFirst, Limit: 10},
		store.Access{Index: store.IndexSpatial, Rects: rects, Near: near, Order: store.NearestFirst, Limit: 10},
		store.Access{Index: store.IndexRemote},
		store.Access{Index: store.IndexRemote, Order: store.NewestFirst, After: &store.RemoteAfter{ID: 9, Posted: store.Millis(clock)}, Limit: 5},
		store.Access{Index: store.IndexRemote, Order: store.LowestIDFirst, After: &store.RemoteAfter{ID: 9}, Limit: 5})
	for _, index := range cellIndexes {
		as = append(as, store.Access{Index: index, Window: &store.Window{At: 1 << 60, Hi: math.MaxInt64, Each: 10}},
			store.Access{Index: index, Ranges: []store.Interval{{Lo: 1, Hi: 2}, {Lo: 1 << 60, Hi: math.MaxInt64}}})
	}
	for _, a := range as {
		for _, a.Match = range []store.Match{{OpenAt: store.Millis(clock)}, match} {
			for _, a.Force = range []bool{false, true} {
				n, err := x.e.Read(t.Context(), a, func([]store.Candidate) error { return nil })
				if err != nil {
					t.Errorf("Read %s: %v", showAccess(a), err)
				}
				statements, err := x.e.Explain(t.Context(), a)
				if err != nil || len(statements) != n || n < 1 {
					t.Errorf("Explain %s = %d statements, %v; Read sent %d", showAccess(a), len(statements), err, n)
				}
				for _, s := range statements {
					checkStatement(t, a, s)
				}
			}
		}
	}
}

func checkStatement(t *testing.T, a store.Access, s store.Statement) {
	t.Helper()
	if !strings.Contains(strings.ToUpper(s.SQL), "SELECT") {
		t.Errorf("Explain %s: the SQL is %q", showAccess(a), s.SQL)
	}
	// What came from outside is an argument and never in the SQL.
	if len(s.Args) == 0 || strings.Contains(s.SQL, "café") || strings.Contains(s.SQL, "Sons") {
		t.Errorf("Explain %s: the SQL is %q with arguments %q", showAccess(a), s.SQL, s.Args)
	}
	if strings.TrimSpace(s.Plan) == "" {
		t.Errorf("Explain %s: %q has no plan", showAccess(a), s.SQL)
	}
	if s.PlanJSON != nil && !json.Valid(s.PlanJSON) {
		t.Errorf("Explain %s: %q has a plan that is not JSON: %.200s", showAccess(a), s.SQL, s.PlanJSON)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Errorf("Explain %s: the statement cannot be written as JSON: %v", showAccess(a), err)
	}
}

// testRefused holds that an access without a meaning is an error and not an answer.
func (x *accessTest) testRefused(t *testing.T) {
	for _, a := range []store.Access{
		{Index: "no_such_index"}, {Index: ""}, {Index: "job; DROP TABLE job"},
	} {
		if _, err := x.e.Read(t.Context(), a, func([]store.Candidate) error { return nil }); err == nil {
			t.Errorf("Read %s returned no error", showAccess(a))
		}
		if _, err := x.e.Explain(t.Context(), a); err == nil {
			t.Errorf("Explain %s returned no error", showAccess(a))
		}
	}
}
