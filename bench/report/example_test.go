package report_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/nearjob/nearjob/bench/report"
	"github.com/nearjob/nearjob/bench/result"
)

// A run that was kept as JSON is shown again, for example by a newer version.
func Example() {
	run := &result.Run{
		SchemaVersion: result.SchemaVersion,
		Made:          time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
		Cases: []result.Case{{
			Set: "dense", Rows: 200000, RadiusM: 1000, Strategy: "bbox", Returned: 20, Within: 312,
			Free: result.Side{
				Time: result.NewTiming([]time.Duration{4 * time.Millisecond, 5 * time.Millisecond, 6 * time.Millisecond}),
				Statements: []result.Statement{{
					Round: 1, SQL: "SELECT id FROM open_job WHERE lat BETWEEN ? AND ?", Args: []string{"37.1", "37.2"},
					Tree: "-> Index range scan on open_job using lat_lng over (37.1 <= lat <= 37.2)  (cost=9 rows=300) (actual time=0.1..4 rows=312 loops=1)",
				}},
			},
		}},
	}
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := report.Write(dir, run); err != nil {
		log.Print(err)
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "report.*"))
	if err != nil {
		log.Print(err)
		return
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	// Output:
	// report.html
	// report.json
	// report.md
}
