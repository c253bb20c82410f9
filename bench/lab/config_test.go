package lab

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func TestDefaults(t *testing.T) {
	var full, quick Config
	quick.Quick = true
	full.EnsureDefaults()
	quick.EnsureDefaults()
	if !slices.Equal(full.Rows, []int{5000, 20000, 50000, 100000, 200000}) || !slices.Equal(full.Radii, []float64{1000, 5000, 20000}) || full.Limit != 100 {
		t.Errorf("full: %v %v %d", full.Rows, full.Radii, full.Limit)
	}
	if !slices.Equal(quick.Rows, []int{5000, 20000}) || !slices.Equal(quick.Radii, []float64{5000}) {
		t.Errorf("quick: %v %v", quick.Rows, quick.Radii)
	}
	rows := []int{7, 3, 7}
	own := Config{Rows: rows, Radii: []float64{5, 1}}
	own.EnsureDefaults()
	if !slices.Equal(own.Rows, []int{3, 7}) || !slices.Equal(own.Radii, []float64{1, 5}) {
		t.Errorf("own: %v %v", own.Rows, own.Radii)
	}
	if !slices.Equal(rows, []int{7, 3, 7}) {
		t.Errorf("the caller's slice became %v", rows)
	}
}

// TestValidate wants every fault, and all of them at once.
func TestValidate(t *testing.T) {
	good := Generated(dataset.Dense, 10, dataset.Seoul(), time.Time{})
	bad := good
	bad.Center = geo.LatLng{Lat: 91}
	named := func(name string) Set { s := good; s.Name = name; return s }
	c := Config{
		Rows: []int{0, 5}, Radii: []float64{math.NaN()}, Limit: 201,
		Sets: []Set{named("a/b"), named("twice"), named("Twice"), bad, {Name: "none", Center: dataset.Seoul()},
			Generated(dataset.Dense, -3, dataset.Seoul(), time.Time{})},
	}
	bad.Name = "bad"
	c.EnsureDefaults()
	err := c.Validate()
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is %v", err)
	}
	var fields []string
	for _, f := range invalid.Faults {
		fields = append(fields, f.Field)
		if f.Reason == "" {
			t.Errorf("%s has no reason", f.Field)
		}
	}
	want := []string{"server", "rows", "radii_m", "limit", "sets[0].name", "sets[2].name", "sets[3].center", "sets[4].jobs", "sets[5].name", "sets[5].rows"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %q\nwant %q", fields, want)
	}
	if _, err := c.Run(t.Context()); !errors.As(err, &invalid) {
		t.Errorf("Run: %v", err)
	}
	ok := Config{Server: &scratch.Server{}, Sets: []Set{good}}
	ok.EnsureDefaults()
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "at least one data set") {
		t.Errorf("no sets: %v", err)
	}
	for _, r := range []float64{0, -1, math.Inf(1), geo.MaxDistance + 1} {
		ok.Radii = []float64{r}
		if err := ok.Validate(); err == nil {
			t.Errorf("a radius of %v is accepted", r)
		}
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"dense": true, "Offices 2024.csv": true, "shop.jobs": true, "일자리": true, "a-5": true,
		"": false, "a/b": false, `a\b`: false, "..": false, ".hidden": false, "a:b": false, "a\nb": false, "a*": false,
		"-a": false, "a\xff": false, strings.Repeat("a", 101): false,
	} {
		if reason := badName(name); (reason == "") != good {
			t.Errorf("%q: %q", name, reason)
		}
	}
	for set, want := range map[string]string{
		"dense": "lab_dense", "Offices 2024.csv": "lab_offices_2024_csv", "일자리": "lab____",
		strings.Repeat("x", 50): "lab_" + strings.Repeat("x", 20),
	} {
		if got := schemaName(set); got != want {
			t.Errorf("schema of %q: %q, want %q", set, got, want)
		}
	}
}

func TestGenerated(t *testing.T) {
	posted := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, shape := range dataset.Shapes() {
		s := Generated(shape, 50, dataset.Seoul(), posted)
		if s.Name != string(shape) || s.About == "" || len(s.Jobs) != 50 || !s.Now.Equal(posted) || s.err != nil {
			t.Errorf("%s: %q %q, %d jobs, %v, %v", shape, s.Name, s.About, len(s.Jobs), s.Now, s.err)
		}
	}
	if s := Generated("round", 50, dataset.Seoul(), posted); s.err == nil || len(s.Jobs) != 0 {
		t.Errorf("a shape that there is not: %v, %d jobs", s.err, len(s.Jobs))
	}
}

func ExampleConfig_Validate() {
	c := Config{
		Out:  "report",
		Sets: []Set{Generated(dataset.Dense, 20_000, dataset.Seoul(), time.Time{})},
		Rows: []int{20_000, 0}, Limit: 500,
	}
	c.EnsureDefaults()
	fmt.Println(c.Validate())
	// Output:
	// rows: 0 is not 1..10000000; limit: 500 is not 1..200
}
