package main

import (
	"context"

	"github.com/ncruces/go-sqlite3"
	"github.com/nearjob/nearjob/bench/sqlitedrivers/workload"
)

// native reads through the driver's own interface with prepared statements.
func native(path string) (workload.Reader, error) {
	c, err := sqlite3.Open("file:" + path + "?_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	prepared := map[string]*sqlite3.Stmt{}
	return func(ctx context.Context, q string, args ...any) (n int, err error) {
		c.SetInterrupt(ctx)
		s := prepared[q]
		if s == nil {
			if s, _, err = c.Prepare(q); err != nil {
				return 0, err
			}
			prepared[q] = s
		}
		defer s.Reset()
		for i, a := range args {
			switch a := a.(type) {
			case int64:
				err = s.BindInt64(i+1, a)
			case float64:
				err = s.BindFloat(i+1, a)
			}
			if err != nil {
				return 0, err
			}
		}
		var id, pay, posted, expires int64
		var lat, lng float64
		for s.Step() {
			id, lat, lng = s.ColumnInt64(0), s.ColumnFloat(1), s.ColumnFloat(2)
			pay, posted, expires = s.ColumnInt64(3), s.ColumnInt64(4), s.ColumnInt64(5)
			n++
		}
		_, _, _, _, _, _ = id, lat, lng, pay, posted, expires
		return n, s.Err()
	}, nil
}
