// Command modernc runs the workload on the driver of that name.
package main

import (
	"fmt"
	"os"

	"github.com/nearjob/nearjob/bench/sqlitedrivers/workload"
	_ "modernc.org/sqlite"
)

func main() {
	if err := workload.Run("sqlite", "file:%s?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_size(-65536)&_txlock=immediate", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
