package dataset_test

import (
	"fmt"

	"github.com/nearjob/nearjob/bench/dataset"
)

func ExampleConfig_Jobs() {
	c := dataset.Config{Rows: 3, Shape: dataset.Dense, Center: dataset.Seoul(), Seed: 1}
	for j := range c.Jobs() {
		fmt.Printf("%s: %s, %.7f,%.7f\n", j.SourceID, j.Title, j.At.Lat, j.At.Lng)
	}
	// Output:
	// dense-1-0: Hand out flyers, today, 37.5407040,126.9748498
	// dense-1-1: Bake for a birthday, 37.5738396,127.0432090
	// dense-1-2: Hang shelves, two people, 37.6255717,126.9546368
}
