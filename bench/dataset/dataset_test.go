package dataset

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var update = flag.Bool("update", false, "write the golden files")

// centres are places where a careless formula fails.
var centres = []geo.LatLng{
	{Lat: 37.5663, Lng: 126.9779},
	{Lat: 0, Lng: 0},
	{Lat: -16.8, Lng: 179.99},
	{Lat: 64.1, Lng: -180},
	{Lat: 90, Lng: 0},
	{Lat: -90, Lng: 77},
	{Lat: 89.99, Lng: -12},
	{Lat: -45, Lng: -90},
}

func line(j store.Job) string {
	return fmt.Sprintf("%d %s %s|%s|%s|%s|%s|%s|%d %s %s|%v %v|%v %s %d %d\n", j.ID, j.Source, j.SourceID, j.Title,
		j.Description, j.URL, j.Category, j.Employer, j.Pay.Amount, j.Pay.Currency, j.Pay.Per,
		math.Float64bits(j.At.Lat), math.Float64bits(j.At.Lng), j.Remote, j.State,
		store.Millis(j.Posted), store.ExpiryMillis(j.Expires))
}

// hashes gives each shape at each centre the hash of its rows.
func hashes() []byte {
	var b bytes.Buffer
	for _, shape := range Shapes() {
		for i, at := range centres {
			h := sha256.New()
			for j := range (Config{Rows: 5_000, Shape: shape, Center: at, Seed: uint64(i)}).Jobs() {
				h.Write([]byte(line(j)))
			}
			fmt.Fprintf(&b, "%s %v,%v %x\n", shape, at.Lat, at.Lng, h.Sum(nil))
		}
	}
	// Rounding hides nearly every difference in the last bits, so they are
	// looked at apart.
	h := sha256.New()
	r := newRandom(1, 2)
	for range 5_000 {
		at := geo.LatLng{Lat: float64(r.between(-90e7, 90e7)) / 1e7, Lng: float64(r.between(-180e7, 180e7)) / 1e7}
		lat, lng := newTangent(at).unrounded(r.between(-countryHalf, countryHalf), r.between(-countryHalf, countryHalf))
		fmt.Fprintf(h, "%x %x\n", math.Float64bits(lat), math.Float64bits(lng))
	}
	fmt.Fprintf(&b, "unrounded %x\n", h.Sum(nil))
	return b.Bytes()
}

// TestGolden fails where the rows differ from those of all other machines and
// versions. Update it (-update) only when the rows are meant to change.
func TestGolden(t *testing.T) {
	const file = "testdata/golden.txt"
	got := hashes()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 || !bytes.Equal(got, want) {
		t.Errorf("the rows are not those of %s; got\n%s", file, got)
	}
}

// TestGoldenFMA runs TestGolden in a program for newer processors, where the
// compiler fuses every multiply-add that it may.
func TestGoldenFMA(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("GOAMD64 has no meaning on %s; where it fuses, TestGolden has shown it already", runtime.GOARCH)
	}
	if testing.Short() {
		t.Skip("-short: compiles the standard library again")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to compile with")
	}
	cmd := exec.Command(goTool, "test", "-count=1", "-run=^(TestGolden|TestFuses)$", "-v", ".")
	cmd.Env = append(os.Environ(), "GOAMD64=v3", "NEARJOB_TEST_FUSES=1")
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("can only be run on AMD64 processors")) {
		t.Skip("this processor has no fused multiply-add")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestGolden ", "--- PASS: TestFuses "} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestFuses shows that TestGoldenFMA can fail: there, an unguarded product is fused.
func TestFuses(t *testing.T) {
	if os.Getenv("NEARJOB_TEST_FUSES") == "" {
		t.Skip("only means something in the program that TestGoldenFMA starts")
	}
	x := 1 + float64(len(os.Args))/(1<<40) // not known to the compiler
	if fusible(x, -product(x)) == 0 {
		t.Error("the compiler did not fuse a multiply-add")
	}
}

//go:noinline
func product(x float64) float64 { return x * x }

//go:noinline
func fusible(x, y float64) float64 { return x*x + y }

func TestSameRowsTwice(t *testing.T) {
	for _, shape := range Shapes() {
		c := Config{Rows: 500, Shape: shape, Center: Seoul(), Seed: 7}
		a, b := slices.Collect(c.Jobs()), slices.Collect(c.Jobs())
		if len(a) != 500 || !slices.Equal(a, b) {
			t.Errorf("%s: %d rows, the second time others", shape, len(a))
		}
		rows := c.Jobs()
		if !slices.Equal(slices.Collect(rows), slices.Collect(rows)) {
			t.Errorf("%s: the same sequence read twice gives other rows", shape)
		}
		c.Seed = 8
		other := slices.Collect(c.Jobs())
		same := 0
		for i := range a {
			if a[i].At == other[i].At && !a[i].Remote && !other[i].Remote {
				same++
			}
			if a[i].SourceID == other[i].SourceID {
				t.Fatalf("%s: seeds 7 and 8 share %s", shape, a[i].SourceID)
			}
		}
		if shape != Stacked && same > 2 {
			t.Errorf("%s: seeds 7 and 8 share %d of 500 places", shape, same)
		}
	}
}

func TestNormalizedAndOrdered(t *testing.T) {
	ids := map[store.ID]string{}
	for _, shape := range Shapes() {
		for _, at := range centres {
			var before store.Job
			sourceIDs := map[string]bool{}
			for j := range (Config{Rows: 3_000, Shape: shape, Center: at}).Jobs() {
				norm := j
				if err := norm.Normalize(); err != nil {
					t.Fatalf("%s %v: %v: %+v", shape, at, err, j)
				}
				if norm != j {
					t.Fatalf("%s %v: Normalize changes\n%+v to\n%+v", shape, at, j, norm)
				}
				if j.ID <= before.ID || !j.Posted.After(before.Posted) {
					t.Fatalf("%s %v: %v posted %v comes after %v posted %v", shape, at, j.ID, j.Posted, before.ID, before.Posted)
				}
				if j.Posted.After(DefaultPosted()) || j.Posted.Before(DefaultPosted().Add(-Span)) {
					t.Fatalf("%s %v: posted %v", shape, at, j.Posted)
				}
				if math.Signbit(j.At.Lat) && j.At.Lat == 0 || math.Signbit(j.At.Lng) && j.At.Lng == 0 {
					t.Fatalf("%s %v: negative zero in %+v", shape, at, j.At)
				}
				if sourceIDs[j.SourceID] {
					t.Fatalf("%s %v: %s comes twice", shape, at, j.SourceID)
				}
				sourceIDs[j.SourceID] = true
				if was := ids[j.ID]; was != "" && !strings.HasPrefix(was, string(shape)) {
					t.Fatalf("%s and %s share id %s", was, j.SourceID, j.ID)
				}
				ids[j.ID] = j.SourceID
				before = j
			}
		}
	}
}

// TestIDsLikeTheStores: generated ids sort by time among those that the service makes.
func TestIDsLikeTheStores(t *testing.T) {
	for j := range (Config{Rows: 10, Center: Seoul()}).Jobs() {
		g, err := store.NewIDs(func() time.Time { return j.Posted }, 0)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := g.Next()>>idLow, j.ID>>idLow; a != b {
			t.Fatalf("posted %v: the store's id begins with %d, the generated with %d", j.Posted, a, b)
		}
	}
}

// TestSetsDoNotShareIDs saves, as it were, sets of several sizes in one store.
func TestSetsDoNotShareIDs(t *testing.T) {
	seen := map[store.ID]string{}
	for _, rows := range []int{100_000, 200_000} {
		for j := range (Config{Rows: rows, Shape: Stacked, Center: Seoul()}).Jobs() {
			if was, ok := seen[j.ID]; ok && was != j.SourceID {
				t.Fatalf("%s and %s share id %s", was, j.SourceID, j.ID)
			}
			seen[j.ID] = j.SourceID
		}
	}
}

// TestDenseSpread: on both axes the standard deviation is 5 km, so the mean distance is
// 5 km * sqrt(pi/2) and the 95th percentile 5 km * sqrt(-2 ln 0.05), at every centre.
func TestDenseSpread(t *testing.T) {
	for _, at := range centres {
		var ds []float64
		var sum float64
		for j := range (Config{Rows: 20_000, Shape: Dense, Center: at, Seed: 3}).Jobs() {
			if !j.Remote {
				d := at.Distance(j.At)
				ds = append(ds, d)
				sum += d
			}
		}
		slices.Sort(ds)
		near(t, fmt.Sprint(at, " mean"), sum/float64(len(ds)), 5000*math.Sqrt(math.Pi/2), 0.02)
		near(t, fmt.Sprint(at, " p95"), ds[len(ds)*95/100], 5000*math.Sqrt(-2*math.Log(0.05)), 0.02)
	}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestSparseSpread(t *testing.T) {
	for _, at := range centres {
		far, rows := 0, 0
		cells := map[[3]int]int{} // cubes of 10 km, which are alike everywhere
		for j := range (Config{Rows: 20_000, Shape: Sparse, Center: at, Seed: 5}).Jobs() {
			if j.Remote {
				continue
			}
			rows++
			d := at.Distance(j.At)
			if d > 300_000*math.Sqrt2 {
				t.Fatalf("%v: a job %v m away", at, d)
			}
			if d > 100_000 {
				far++
			}
			sinLat, cosLat := math.Sincos(j.At.Lat * math.Pi / 180)
			sinLng, cosLng := math.Sincos(j.At.Lng * math.Pi / 180)
			cube := func(x float64) int { return int(math.Floor(x * geo.EarthRadius / 10_000)) }
			cells[[3]int{cube(cosLat * cosLng), cube(cosLat * sinLng), cube(sinLat)}]++
		}
		if far < rows/2 {
			t.Errorf("%v: only %d of %d jobs are farther than 100 km", at, far, rows)
		}
		most := 0
		for _, n := range cells {
			most = max(most, n)
		}
		if most < rows/100 {
			t.Errorf("%v: no town: at most %d of %d jobs in one cell", at, most, rows)
		}
	}
}

func TestOtherSpreads(t *testing.T) {
	at := geo.LatLng{Lat: 48.123456789, Lng: 11.5}
	for j := range (Config{Rows: 1000, Shape: Stacked, Center: at}).Jobs() {
		if !j.Remote && j.At != at {
			t.Fatalf("stacked at %v", j.At)
		}
	}
	close := 0
	for j := range (Config{Rows: 2000, Shape: Mixed, Center: at}).Jobs() {
		if at.Distance(j.At) < 30_000 {
			close++
		}
	}
	if close < 950 || close > 1150 {
		t.Errorf("mixed: %d of 2000 within 30 km", close)
	}
	tokyo, north := 0, 0
	for j := range (Config{Rows: 20_000, Shape: Cities}).Jobs() {
		if (geo.LatLng{Lat: 35.69, Lng: 139.69}).Distance(j.At) < 60_000 {
			tokyo++
		}
		if j.At.Lat > 0 {
			north++
		}
	}
	if tokyo < 50 || tokyo > 400 || north < 15_000 {
		t.Errorf("cities: %d of 20000 around Tokyo, %d in the north", tokyo, north)
	}
}

func TestContent(t *testing.T) {
	const rows = 20_000
	categories, employers := map[string]int{}, map[string]int{}
	var unstated, remote, expires, expired int
	for _, currency := range []string{"KRW", "USD", "EUR"} {
		for j := range (Config{Rows: rows, Center: Seoul(), Currency: currency}).Jobs() {
			categories[j.Category]++
			employers[j.Employer]++
			switch {
			case j.Pay.Amount == 0:
				unstated++
			case j.Pay.Currency != currency || j.Pay.Per == "" || j.Pay.Amount%currencies[currency].step != 0:
				t.Fatalf("pay %+v with %s", j.Pay, currency)
			}
			if j.Remote {
				remote++
			}
			if !j.Expires.IsZero() {
				expires++
				if j.Expires.Before(DefaultPosted()) {
					expired++
				}
			}
		}
	}
	near(t, "unstated", float64(unstated), 0.2*3*rows, 0.05)
	near(t, "remote", float64(remote), 0.03*3*rows, 0.1)
	near(t, "expires", float64(expires), 0.4*3*rows, 0.05)
	near(t, "expired", float64(expired), 0.033*3*rows, 0.1)
	if len(categories) != 12 || len(employers) < 350 {
		t.Errorf("%d categories, %d employers", len(categories), len(employers))
	}
	most := 0
	for _, n := range employers {
		most = max(most, n)
	}
	if most < 3*rows/10 || most > 3*rows/5 {
		t.Errorf("the largest employer has %d of %d jobs", most, 3*rows)
	}
}

func TestValidate(t *testing.T) {
	var c Config
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Config{Rows: -1, Shape: "round", Center: geo.LatLng{Lat: 91, Lng: 0}, Posted: time.Unix(0, 0), Currency: "won"}
	var invalid *store.InvalidError
	if err := bad.Validate(); !errors.As(err, &invalid) || len(invalid.Faults) != 5 {
		t.Errorf("want five faults, got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Jobs takes a bad Config")
		}
	}()
	bad.Jobs()
}

func TestCities(t *testing.T) {
	cs := AllCities()
	if len(cs) != 26_416 {
		t.Errorf("%d cities", len(cs))
	}
	for _, c := range cs {
		if _, err := geo.NewLatLng(c.At.Lat, c.At.Lng); err != nil || c.Name == "" || len(c.Country) != 2 || c.Population < 15_000 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := readCities(citiesTSV[:1000]); err == nil {
		t.Error("a cut file is read without an error")
	}
}

func TestTrig(t *testing.T) {
	for d := -180.0; d <= 180; d += 0.37 {
		s, c := sinCos(d)
		if math.Abs(s-math.Sin(d*math.Pi/180)) > 1e-14 || math.Abs(c-math.Cos(d*math.Pi/180)) > 1e-14 {
			t.Fatalf("%v: sin %v, cos %v", d, s, c)
		}
		if got := atan2(s, c); math.Abs(got-d) > 1e-13 && math.Abs(got-d) < 359 {
			t.Fatalf("atan2 at %v: %v", d, got)
		}
	}
	if atan2(0, 0) != 0 || atan2(0, -1) != 180 || atan2(1, 0) != 90 || atan2(-1, 0) != -90 {
		t.Error("atan2 on the axes")
	}
}

func BenchmarkJobs(b *testing.B) {
	for _, shape := range Shapes() {
		b.Run("shape="+string(shape), func(b *testing.B) {
			n := 0
			for range (Config{Rows: min(max(b.N, 1), MaxRows), Shape: shape, Center: Seoul()}).Jobs() {
				n++
			}
			if n != b.N {
				b.Fatalf("%d rows", n)
			}
		})
	}
}
