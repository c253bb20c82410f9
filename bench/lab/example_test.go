package lab_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/lab"
	"github.com/nearjob/nearjob/bench/scratch"
)

// Run measures two generated data sets. Called again, it goes on where it was broken
// off, and returns at once when all captures are there.
func ExampleConfig_Run() {
	ctx := context.Background()
	server, err := scratch.Open(ctx, "mysql://root:secret@localhost:3306/")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	c := lab.Config{
		Server: server,
		Sets: []lab.Set{
			lab.Generated(dataset.Dense, 20_000, dataset.Seoul(), time.Time{}),
			lab.Generated(dataset.Stacked, 20_000, dataset.Seoul(), time.Time{}),
		},
		Quick: true, // 5,000 and 20,000 rows, one radius
		Out:   "report",
	}
	run, err := c.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := run.Write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// What the optimizer weighed for a box over the index (lat, lng).
func ExampleParseTrace() {
	trace, err := os.ReadFile("testdata/trace/range.json")
	if err != nil {
		log.Fatal(err)
	}
	t, err := lab.ParseTrace(trace)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Chosen)
	fmt.Println(t.Cause)
	for _, a := range t.Alternatives {
		if a.Usable {
			fmt.Printf("%s: %d range, %.0f rows, cost %.1f\n", a.Index, a.Ranges, a.Rows, a.Cost)
		}
	}
	// Output:
	// range on lat_lng
	// lat_lng: 732 rows at cost 80.2 against 520 for the scan of 4,936 rows, so the range was chosen
	// lat_lng: 1 range, 732 rows, cost 80.2
}
