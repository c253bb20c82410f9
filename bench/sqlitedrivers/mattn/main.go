// Command mattn runs the workload on the driver of that name.
package main

import (
	"fmt"
	"os"

	_ "github.com/mattn/go-sqlite3"
	"github.com/nearjob/nearjob/bench/sqlitedrivers/workload"
)

func main() {
	if err := workload.Run("sqlite3", "file:%s?_busy_timeout=5000&_journal_mode=wal&_synchronous=full&_cache_size=-65536&_txlock=immediate", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
