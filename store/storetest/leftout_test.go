package storetest_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain says once, on the terminal, what is left out without a MySQL: go test
// shows nothing that a package prints when it passes, and skipped tests only with -v.
func TestMain(m *testing.M) {
	if !haveMySQL() {
		if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
			fmt.Fprintln(tty, "left out: the tests of store/mysql and store/storetest that need MySQL; make test runs them")
			tty.Close()
		}
	}
	os.Exit(m.Run())
}
