package lab

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func ids(t *testing.T, d *data) []store.ID {
	t.Helper()
	var all []store.ID
	for n := range d.order {
		j, err := d.job(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j.ID)
	}
	return all
}

// TestPrepare: the order in which jobs come does not matter, a size is a prefix of the
// larger ones, and it is not the order of the ids.
func TestPrepare(t *testing.T) {
	s := Generated(dataset.Sparse, 500, dataset.Seoul(), time.Time{})
	a, err := prepare(t.Context(), &s, []int{100, 300, 1000, 2000})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.sizes, []int{100, 300, 500}) || len(a.hashes) != 3 {
		t.Errorf("sizes %v, %d hashes", a.sizes, len(a.hashes))
	}
	other := s
	other.Jobs = slices.Clone(s.Jobs)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(other.Jobs), func(i, j int) {
		other.Jobs[i], other.Jobs[j] = other.Jobs[j], other.Jobs[i]
	})
	b, err := prepare(t.Context(), &other, []int{100, 300})
	if err != nil {
		t.Fatal(err)
	}
	x, y := ids(t, a), ids(t, b)
	if !slices.Equal(x[:300], y) || !slices.Equal(a.hashes[:2], b.hashes) {
		t.Error("the order of the jobs that came makes other sizes")
	}
	if slices.IsSorted(x) {
		t.Error("the jobs are not shuffled")
	}
	if a.hashes[0] == a.hashes[1] || a.hashes[1] == a.hashes[2] {
		t.Errorf("hashes %q", a.hashes)
	}
	if !a.now.Equal(s.Now) {
		t.Errorf("the clock is at %v, want %v", a.now, s.Now)
	}
	s.Now = time.Time{}
	a, err = prepare(t.Context(), &s, []int{10})
	if err != nil {
		t.Fatal(err)
	}
	newest := slices.MaxFunc(s.Jobs, func(a, b store.Job) int { return a.Posted.Compare(b.Posted) }).Posted
	if !a.now.Equal(newest) {
		t.Errorf("the clock is at %v, want %v of the newest job, whatever the sizes", a.now, newest)
	}
}

func TestPrepareFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(jobs []store.Job)
		want  string
	}{
		"id":    {func(j []store.Job) { j[3].ID = j[7].ID }, "two jobs of"},
		"name":  {func(j []store.Job) { j[3].Source, j[3].SourceID = j[7].Source, j[7].SourceID }, "source_id"},
		"title": {func(j []store.Job) { j[3].Title = " " }, "title"},
		"place": {func(j []store.Job) { j[3].Remote = false; j[3].At.Lat = math.NaN() }, "lat"},
	} {
		s := Generated(dataset.Dense, 20, dataset.Seoul(), time.Time{})
		tc.spoil(s.Jobs)
		_, err := prepare(t.Context(), &s, []int{20})
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), s.Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithin compares with another way to count.
func TestWithin(t *testing.T) {
	s := Generated(dataset.Mixed, 2000, dataset.Seoul(), time.Time{})
	s.Jobs[5].State = store.Matched
	d, err := prepare(t.Context(), &s, []int{1000, 2000})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range d.sizes {
		for _, radius := range []float64{0.5, 3000, 50_000, geo.MaxDistance} {
			hits := d.within(rows, radius)
			inside := make(map[store.ID]bool)
			for n := range rows {
				j, err := d.job(n)
				if err != nil {
					t.Fatal(err)
				}
				if j.State == store.Open && !j.Remote && (j.Expires.IsZero() || j.Expires.After(d.now)) &&
					j.At.Distance(d.Center) <= radius {
					inside[j.ID] = true
				}
			}
			if len(hits) != len(inside) {
				t.Errorf("%d rows, %v m: %d hits, want %d", rows, radius, len(hits), len(inside))
			}
			for i, h := range hits {
				if !inside[h.id] {
					t.Errorf("%d rows, %v m: job %s is not inside", rows, radius, h.id)
				}
				if i > 0 && (hits[i-1].distance > h.distance || hits[i-1].distance == h.distance && hits[i-1].id >= h.id) {
					t.Errorf("%d rows, %v m: hits %d and %d are out of order", rows, radius, i-1, i)
				}
			}
		}
	}
	if n := len(d.within(2000, geo.MaxDistance)); n == 2000 || n < 1500 {
		t.Errorf("%d of 2000 are open here: the set has no jobs that are remote or expired, or too many", n)
	}
}

// TestContent: every field of a job counts, and so does where one text ends.
func TestContent(t *testing.T) {
	base := store.Job{
		ID: 1, Source: "s", SourceID: "1", Title: "t", Description: "d", URL: "u", Category: "c", Employer: "e",
		Pay: store.Pay{Amount: 5, Currency: "EUR", Per: "hour"}, At: geo.LatLng{Lat: 1, Lng: 2}, State: store.Open,
		Posted: time.UnixMilli(1), Expires: time.UnixMilli(2),
	}
	changes := []func(j *store.Job){
		func(*store.Job) {},
		func(j *store.Job) { j.ID = 2 }, func(j *store.Job) { j.Source = "x" }, func(j *store.Job) { j.SourceID = "x" },
		func(j *store.Job) { j.Title = "x" }, func(j *store.Job) { j.Description = "x" }, func(j *store.Job) { j.URL = "x" },
		func(j *store.Job) { j.Category = "x" }, func(j *store.Job) { j.Employer = "x" }, func(j *store.Job) { j.Pay.Amount = 6 },
		func(j *store.Job) { j.Pay.Currency = "x" }, func(j *store.Job) { j.Pay.Per = "x" }, func(j *store.Job) { j.At.Lat = 3 },
		func(j *store.Job) { j.At.Lng = 3 }, func(j *store.Job) { j.Remote = true }, func(j *store.Job) { j.State = store.Matched },
		func(j *store.Job) { j.Posted = time.UnixMilli(9) }, func(j *store.Job) { j.Expires = time.Time{} },
		func(j *store.Job) { j.Title, j.Description = "td", "" },
	}
	seen := make(map[string]int)
	for i, change := range changes {
		j := base
		change(&j)
		c := newContent()
		c.add(&j)
		if was, ok := seen[c.sum()]; ok {
			t.Errorf("changes %d and %d have the same hash", was, i)
		}
		seen[c.sum()] = i
	}
}
