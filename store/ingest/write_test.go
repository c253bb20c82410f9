package ingest

import (
	"bytes"
	"errors"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func seq(jobs []store.Job, end error) iter.Seq2[store.Job, error] {
	return func(yield func(store.Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
		if end != nil {
			yield(store.Job{}, end)
		}
	}
}

func TestWriteCSVIsReadBack(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 987e6, time.UTC)
	jobs := []store.Job{
		{SourceID: "a", Title: `Clean "the" house, quickly`, Description: "two\nlines", Category: "cleaning", Employer: "김철수",
			At: geo.LatLng{Lat: 37.56630000000001, Lng: 180}, Pay: store.Pay{Amount: 1250, Currency: "USD", Per: "hour"}, Posted: at, Expires: at.Add(time.Hour)},
		{SourceID: "b", Title: "Write a letter", Remote: true, Posted: at, URL: "https://example.org/b"},
		{SourceID: "c", Title: "At the pole", At: geo.LatLng{Lat: -90, Lng: 5e-324}, Pay: store.Pay{Amount: 5}, Posted: at},
	}
	var file bytes.Buffer
	if err := WriteCSV(&file, seq(jobs, nil)); err != nil {
		t.Fatal(err)
	}
	_, records, err := Records(&file, "jobs.csv", Options{Source: "s", Now: at.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rec, err := range records {
		if err != nil || rec.Rejected != nil || len(rec.Warnings) > 0 {
			t.Fatalf("record %d: %v, %+v, %v", n, err, rec.Rejected, rec.Warnings)
		}
		want := jobs[n]
		want.Source, want.State = "s", store.Open
		if !reflect.DeepEqual(rec.Job, want) {
			t.Errorf("got  %+v\nwant %+v", rec.Job, want)
		}
		n++
	}
	if n != len(jobs) {
		t.Errorf("%d jobs came back of %d", n, len(jobs))
	}
}

func TestWriteCSVPassesErrorsOn(t *testing.T) {
	want := errors.New("no more")
	if err := WriteCSV(&bytes.Buffer{}, seq(nil, want)); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}
