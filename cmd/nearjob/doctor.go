package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

type doctorCmd struct {
	database
}

func (doctorCmd) Help() string {
	return `It changes nothing. Exit code 1 means that something needs doing.

Example:

    nearjob doctor --db mysql://nearjob:secret@127.0.0.1:3306/nearjob`
}

// Run checks one thing after the other and stops where the next ones would have
// no meaning.
func (c *doctorCmd) Run(ctx context.Context, s streams) (err error) {
	c.AutoMigrate = false
	check := func(what string, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		_, err = fmt.Fprintf(s.out, "ok    %s\n", what)
		return err
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return check("the database can be opened", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := check("the "+e.Name()+" database can be opened", nil); err != nil {
		return err
	}
	if err := check("its schema is at this program's version", e.Ready(ctx)); err != nil {
		return err
	}
	n, err := e.Count(ctx)
	if err := check(fmt.Sprintf("it holds %d jobs", n), err); err != nil {
		return err
	}
	return check("every strategy gives the same answer", sameAnswer(ctx, e))
}

// sameAnswer asks each strategy for the jobs nearest to a place or two and compares
// them with the first one's.
func sameAnswer(ctx context.Context, e store.Engine) error {
	now := time.Now()
	f := search.New(e, func() time.Time { return now })
	for _, at := range []geo.LatLng{{}, {Lat: 52.52, Lng: 13.405}, {Lat: -36.8, Lng: 179.99}} {
		var first store.Page
		for i, st := range search.Strategies() {
			p, err := f.Find(ctx, store.Query{Center: at, Radius: store.Unlimited, Limit: 50, Strategy: st.Name()})
			if err != nil {
				return err
			}
			if i == 0 {
				first = p
				continue
			}
			if len(p.Jobs) != len(first.Jobs) || p.Next != first.Next {
				return fmt.Errorf("%s finds %d jobs near %v, %s finds %d; if nothing was being written, please report it",
					st.Name(), len(p.Jobs), at, first.Stats.Strategy, len(first.Jobs))
			}
			for k := range p.Jobs {
				if p.Jobs[k].Job.ID != first.Jobs[k].Job.ID || p.Jobs[k].Distance != first.Jobs[k].Distance {
					return fmt.Errorf("%s has job %s near %v where %s has %s; if nothing was being written, please report it",
						st.Name(), p.Jobs[k].Job.ID, at, first.Stats.Strategy, first.Jobs[k].Job.ID)
				}
			}
		}
	}
	return nil
}
