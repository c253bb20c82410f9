package experiment

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/result"
)

func TestValues(t *testing.T) {
	v := values{4, 1, 3, 2}
	if v.min() != 1 || v.max() != 4 || v.median() != 2.5 || v.quantile(0.25) != 1.75 {
		t.Errorf("got %v %v %v %v, want 1 4 2.5 1.75", v.min(), v.max(), v.median(), v.quantile(0.25))
	}
	if v[0] != 4 {
		t.Error("the values were sorted in place")
	}
	if !math.IsNaN(values{}.median()) {
		t.Error("the median of nothing is a number")
	}
	for _, tt := range []struct {
		v           values
		text, times string
	}{
		{nil, "none", "not measured"},
		{values{2}, "2", "2 times"},
		{values{1, 2, 4}, "2 (1 to 4)", "2 times (1 to 4)"},
	} {
		if got := tt.v.String(); got != tt.text {
			t.Errorf("String: got %q, want %q", got, tt.text)
		}
		if got := tt.v.times(); got != tt.times {
			t.Errorf("times: got %q, want %q", got, tt.times)
		}
	}
}

func TestFigure(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{1, "1"},
		{1.5, "1.5"},
		{0.0123456, "0.0123"},
		{12.345, "12.3"},
		{99.96, "100"},
		{100, "100"},
		{999.6, "1,000"},
		{1234567, "1,234,567"},
		{-1234, "-1,234"},
		{-100, "-100"},
		{math.NaN(), "-"},
		{math.Inf(1), "without end"},
	} {
		if got := figure(tt.f); got != tt.want {
			t.Errorf("figure(%v): got %q, want %q", tt.f, got, tt.want)
		}
	}
}

func timing(median, spread float64) result.Timing {
	return result.Timing{Runs: 5, Median: median, P95: median, Min: median, Max: median, Spread: spread}
}

func TestRatioOf(t *testing.T) {
	r := ratioOf(timing(20, 0.1), timing(10, 0.2))
	if r.mid != 2 || math.Abs(r.lo-1.5) > 1e-12 || math.Abs(r.hi-2.75) > 1e-12 {
		t.Errorf("got %v, want 1.5 2 2.75", r)
	}
	if r := ratioOf(timing(20, 0), timing(10, 1)); !math.IsInf(r.hi, 1) {
		t.Errorf("got %v, want no upper end", r)
	}
	for _, r := range []ratio{ratioOf(timing(1, 0), result.Timing{}), ratioOf(result.Timing{}, timing(1, 0))} {
		if !math.IsNaN(r.mid) || !math.IsNaN(r.lo) || !math.IsNaN(r.hi) {
			t.Errorf("got %v for a side without runs", r)
		}
	}
}

func TestJudgeRatio(t *testing.T) {
	for _, tt := range []struct {
		name      string
		published float64
		ours      values
		want      result.Outcome
	}{
		{"nothing", 10, nil, result.Unclear},
		{"too few", 10, values{10, 10}, result.Unclear},
		{"as published", 10, values{9, 10, 12}, result.Confirmed},
		{"at the edge", 10, values{15, 15, 15}, result.Confirmed},
		{"beyond the edge", 10, values{15.1, 15.1, 15.1}, result.Differs},
		{"less, but faster", 10, values{1.5, 2, 3}, result.Differs},
		{"no faster", 10, values{0.95, 1, 1.05}, result.Refuted},
		{"slower", 10, values{0.4, 0.5, 3}, result.Refuted},
		{"the one or the other", 10, values{0.5, 1.05, 2, 0.5, 1.05, 2, 1.05}, result.Unclear},
		{"faster on the whole, but not surely", 10, values{0.5, 0.6, 1.5, 1.6, 1.7}, result.Unclear},
		{"not a number", 10, values{math.NaN(), math.NaN(), math.NaN()}, result.Unclear},
		{"direction only, faster", 0, values{1.5, 2, 3}, result.Confirmed},
		{"direction only, no faster", 0, values{0.95, 1, 1.05}, result.Refuted},
	} {
		if got := judgeRatio(tt.published, tt.ours); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestJudgeShare(t *testing.T) {
	for _, tt := range []struct {
		ours values
		want result.Outcome
	}{
		{nil, result.Unclear},
		{values{2.3, 2.3}, result.Unclear},
		{values{2, 2.5, 3}, result.Confirmed},
		{values{8, 9, 10}, result.Differs},
		{values{0.1, 0.1, 0.1}, result.Differs},
	} {
		if got := judgeShare(publishedShare, tt.ours); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.ours, got, tt.want)
		}
	}
}

func TestJudgeForced(t *testing.T) {
	box := func(cost, scan, forced, spread float64) timedBox {
		return timedBox{costRatio: cost, scan: timing(scan, spread), forced: timing(forced, spread)}
	}
	few := box(4.5, 100, 10, 0)
	few.forced.Runs = 2
	for _, tt := range []struct {
		name  string
		boxes []timedBox
		want  result.Outcome
	}{
		{"nothing", nil, result.Unclear},
		{"as published", []timedBox{box(1, 10, 10, 0), box(4, 100, 10, 0.1)}, result.Confirmed},
		{"as fast, but hardly dearer", []timedBox{box(1.2, 100, 10, 0.1)}, result.Differs},
		{"faster by less", []timedBox{box(1.2, 20, 10, 0.1), box(4.5, 10, 20, 0.1)}, result.Differs},
		{"slower", []timedBox{box(1.2, 10, 20, 0.1)}, result.Refuted},
		{"too noisy", []timedBox{box(1.2, 11, 10, 0.5)}, result.Unclear},
		{"too few", []timedBox{few}, result.Unclear},
	} {
		if got := judgeForced(tt.boxes); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestJudgeRTree(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		used, boxes, stacked int
		last, btree          values
		want                 result.Outcome
	}{
		{"no R-tree", 0, 0, 0, nil, values{5}, result.Unclear},
		{"always", 5, 5, 0, values{100}, values{5}, result.Confirmed},
		{"always, and stacked too", 5, 5, 5, values{100}, values{5}, result.Differs},
		{"farther than the B-tree", 4, 5, 0, values{30}, values{5}, result.Differs},
		{"there is no crossover of the B-tree", 4, 5, 0, values{30}, nil, result.Differs},
		{"less far", 1, 5, 0, values{1}, values{5}, result.Refuted},
		{"never", 0, 5, 0, nil, values{5}, result.Refuted},
	} {
		if got := judgeRTree(tt.used, tt.boxes, tt.stacked, tt.last, tt.btree); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestJudgeStacked(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers bool
		all     []limit
		top     int
		want    result.Outcome
	}{
		{"nothing", true, nil, 1000, result.Unclear},
		{"down as published", false, []limit{{"a", 200, 300}}, 1000, result.Confirmed},
		{"down earlier", false, []limit{{"a", 0, 25}}, 1000, result.Differs},
		{"down while every load was kept", false, []limit{{"a", 25, 0}}, 1000, result.Differs},
		{"too slow, but up", true, []limit{{"a", 1000, 0}, {"b", 100, 200}}, 1000, result.Differs},
		{"keeps more", true, []limit{{"a", 1000, 0}, {"b", 300, 500}}, 1000, result.Refuted},
		{"was not tried", true, []limit{{"a", 100, 0}}, 100, result.Unclear},
	} {
		if got := judgeStacked(tt.answers, tt.all, tt.top); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestBisect(t *testing.T) {
	for _, tt := range []struct{ lo, hi, last int }{
		{1, 1, 0}, {1, 1, 1}, {1, 2, 1}, {1, 100, 0}, {1, 100, 1}, {1, 100, 37}, {1, 100, 99}, {1, 100, 100}, {5, 9, 4},
		{1, 100_000, 23_456},
	} {
		looks := 0
		got, err := bisect(tt.lo, tt.hi, func(n int) (bool, error) {
			looks++
			if n < tt.lo || n > tt.hi {
				t.Errorf("%v: looked at %d", tt, n)
			}
			return n <= tt.last, nil
		})
		if err != nil || got != tt.last {
			t.Errorf("%v: got %d, %v", tt, got, err)
		}
		if most := 3 + int(math.Ceil(math.Log2(float64(tt.hi-tt.lo+1)))); looks > most {
			t.Errorf("%v: %d looks, want at most %d", tt, looks, most)
		}
	}
	stop := errors.New("stop")
	for at := range 4 {
		looks := 0
		_, err := bisect(1, 100, func(n int) (bool, error) {
			if looks++; looks > at {
				return false, stop
			}
			return n < 50, nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("an error at look %d: got %v", at, err)
		}
	}
}

func TestCrossing(t *testing.T) {
	for _, tt := range []struct {
		name        string
		points      []result.Point
		x           float64
		found, open bool
	}{
		{"nothing", nil, 0, false, false},
		{"never above", []result.Point{{X: 1, Y: 1}, {X: 10, Y: 0.5}}, 0, false, false},
		{"always above", []result.Point{{X: 1, Y: 3}, {X: 10, Y: 2}}, 10, true, true},
		{"in the middle", []result.Point{{X: 1, Y: 4}, {X: 100, Y: 0.25}}, 10, true, false},
		{"exactly at the second", []result.Point{{X: 1, Y: 4}, {X: 100, Y: 1}}, 100, true, false},
		{"the last of several", []result.Point{{X: 1, Y: 2}, {X: 2, Y: 0.5}, {X: 10, Y: 10}, {X: 1000, Y: 0.1}}, 100, true, false},
	} {
		x, found, open := crossing(tt.points)
		if math.Abs(x-tt.x) > 1e-9 || found != tt.found || open != tt.open {
			t.Errorf("%s: got %v %v %v, want %v %v %v", tt.name, x, found, open, tt.x, tt.found, tt.open)
		}
	}
}

func TestLimits(t *testing.T) {
	good := loopSeen{arrived: 10, answered: 10, latencies: make([]time.Duration, 10), took: time.Second}
	bad := loopSeen{arrived: 10, answered: 1, expired: 9, latencies: make([]time.Duration, 10), took: time.Second}
	got := limits([]stackedStep{{"a", 10, good}, {"a", 10, bad}, {"b", 10, bad}, {"c", 10, good}})
	want := []limit{{"a", 10, 10}, {"b", 0, 10}, {"c", 10, 0}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
