package ingest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/ingest"
)

// printer is a Saver; an engine of Nearjob is another.
type printer struct{}

func (printer) Save(_ context.Context, jobs []store.Job) (store.Saved, error) {
	for _, j := range jobs {
		fmt.Printf("%s %s: %s at %v,%v\n", j.Source, j.SourceID, j.Title, j.At.Lat, j.At.Lng)
	}
	return store.Saved{Added: len(jobs)}, nil
}

func ExampleImport() {
	file := `Job ID;Job Title;Latitude;Longitude;Posted
17;Mow a lawn;37.57;126.98;2026-01-31
18;Walk a dog;37,55;126.97;2026-01-31
19;Wash dishes;0;0;2026-01-31
`
	now := func() time.Time { return time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC) }
	ids, err := store.NewIDs(now, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := ingest.Import(context.Background(), strings.NewReader(file), "jobs.csv", printer{}, ingest.Options{
		Now: now(), IDs: ids, Rejects: ingest.NewRejects(os.Stdout),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(sum)
	// Output:
	// file,line,reason,detail,record
	// jobs.csv,3,text in a number,"lat: ""37,55"" is not a decimal number","18;Walk a dog;37,55;126.97;2026-01-31"
	// jobs.csv,4,"0,0 placeholder","0,0 stands for an unknown place",19;Wash dishes;0;0;2026-01-31
	// jobs 17: Mow a lawn at 37.57,126.98
	// jobs.csv (CSV, source jobs): 3 rows, 1 jobs added, 0 updated, 2 rows left out
	//   left out: 1, 0,0 placeholder
	//   left out: 1, text in a number
}
