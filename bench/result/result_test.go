package result_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/result"
)

func TestNewTiming(t *testing.T) {
	ms := func(ds ...float64) (runs []time.Duration) {
		for _, d := range ds {
			runs = append(runs, time.Duration(d*1e6))
		}
		return runs
	}
	tests := []struct {
		name string
		runs []time.Duration
		want result.Timing
	}{
		{"none", nil, result.Timing{}},
		{"one", ms(3), result.Timing{Runs: 1, Median: 3, P95: 3, Min: 3, Max: 3}},
		{"two", ms(4, 2), result.Timing{Runs: 2, Median: 3, P95: 3.9, Min: 2, Max: 4, Spread: 0.5 / 3}},
		{"five, unsorted", ms(5, 1, 4, 2, 3), result.Timing{Runs: 5, Median: 3, P95: 4.8, Min: 1, Max: 5, Spread: 1.0 / 3}},
		{"nothing took time", ms(0, 0), result.Timing{Runs: 2}},
	}
	for _, tt := range tests {
		got := result.NewTiming(tt.runs)
		for _, pair := range [][2]float64{
			{got.Median, tt.want.Median}, {got.P95, tt.want.P95}, {got.Min, tt.want.Min},
			{got.Max, tt.want.Max}, {got.Spread, tt.want.Spread}, {float64(got.Runs), float64(tt.want.Runs)},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
				break
			}
		}
	}
}

func TestReadWrite(t *testing.T) {
	run := &result.Run{
		SchemaVersion: result.SchemaVersion,
		Made:          time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Cases: []result.Case{{
			Set: "dense", Rows: 5000, RadiusM: 1000, Strategy: "bbox",
			Free: result.Side{Statements: []result.Statement{{SQL: "SELECT 1 < 2", JSON: json.RawMessage(`{"a":1}`)}}},
		}},
		Warnings: []string{"<b>"},
	}
	var b bytes.Buffer
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := result.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, run) {
		t.Errorf("got %+v, want %+v", got, run)
	}
	for _, tt := range []struct{ in, want string }{
		{"{}", "schema_version is missing"},
		{`{"schema_version": 99}`, "newer"},
		{"[", "read a run"},
	} {
		if _, err := result.Read(strings.NewReader(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Read(%s): %v, want %s", tt.in, err, tt.want)
		}
	}
}

func TestKey(t *testing.T) {
	c := result.Case{Set: "dense", Rows: 5000, RadiusM: 0.5, Strategy: "s2"}
	if got := c.Key(); got != "dense-5000-0.5m-s2" {
		t.Error(got)
	}
	c.RadiusM = math.Inf(1)
	if got := c.Key(); got != "dense-5000-unlimited-s2" {
		t.Error(got)
	}
}
