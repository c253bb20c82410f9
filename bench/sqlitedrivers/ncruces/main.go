// Command ncruces runs the workload on the driver of that name.
package main

import (
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/rtree"
	"github.com/nearjob/nearjob/bench/sqlitedrivers/workload"
)

func main() {
	sqlite3.AutoExtension(rtree.Register)
	if err := workload.Run("sqlite3", "file:%s?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_size(-65536)&_txlock=immediate", native); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
