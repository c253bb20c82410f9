package plan_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
)

const scan = `+---------+
| EXPLAIN |
+---------+
| -> Filter: (job.lat between 37.2 and 37.25)  (cost=416 rows=3212) (actual time=0.1..27.1 rows=199 loops=1)
    -> Table scan on job  (cost=416 rows=3922) (actual time=0.1..21.1 rows=40000 loops=1)
 |
+---------+
1 row in set (0.03 sec)
`

func ExampleParse() {
	plans, err := plan.Parse(strings.NewReader(scan))
	if err != nil {
		log.Fatal(err)
	}
	for depth, n := range plans[0].Root.All() {
		rows, _ := n.TotalRows()
		self, _, _ := n.SelfMS()
		fmt.Printf("%*s%s %s: %s rows, %s\n", 2*depth, "", n.Kind, n.Table, plan.Figure(rows), plan.Milliseconds(self))
		for _, note := range n.Notes() {
			fmt.Printf("%*s! %s\n", 2*depth, "", note.Text)
		}
	}
	// Output:
	// filter : 199 rows, 6 ms
	// ! Discards most of what is read: 40,000 rows in, 199 out.
	// ! Estimate off: 16.1 times fewer rows than estimated (3,212 estimated, 199 actual for each loop). What stands above it was planned for the wrong amount.
	//   table scan job: 40,000 rows, 21.1 ms
	//   ! Full scan: reads every row of job (40,000 rows).
	//   ! Estimate off: 10.2 times more rows than estimated (3,922 estimated, 40,000 actual for each loop). What stands above it was planned for the wrong amount.
}

func ExampleDiff() {
	const index = "-> Index range scan on job using by_lat over (37.2 <= lat <= 37.25)  (cost=90 rows=199) (actual time=0.1..0.6 rows=199 loops=1)"
	a, err := plan.Parse(strings.NewReader(scan))
	if err != nil {
		log.Fatal(err)
	}
	b, err := plan.Parse(strings.NewReader(index))
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan.Diff(a[0], b[0]).Changes {
		fmt.Printf("%s, %s: %q -> %q\n", c.Class, c.What, c.A, c.B)
	}
	// Output:
	// shape, removed: "Filter: (job.lat between 37.2 and 37.25)" -> ""
	// access, operation: "Table scan on job" -> "Index range scan on job using by_lat over (37.2 <= lat <= 37.25)"
	// access, index: "" -> "by_lat"
	// access, ranges: "" -> "(37.2 <= lat <= 37.25)"
	// rows, estimated rows: "3,922" -> "199"
	// rows, actual rows: "40,000" -> "199"
	// time, own time: "21.1 ms" -> "0.6 ms"
	// time, total time: "21.1 ms" -> "0.6 ms"
}
