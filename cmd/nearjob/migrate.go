package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nearjob/nearjob/store"
)

type migrateCmd struct {
	database
}

func (migrateCmd) Help() string {
	return `Any number of nodes may migrate at once: one does it, the others wait.

With --blur-m it also brings the jobs that are there to places by that radius and secret, or with 0 to their own.
Programs with other settings then write no more and are not ready: start them again with these.

Examples:

    nearjob migrate --db mysql://nearjob:secret@127.0.0.1:3306/nearjob
    NEARJOB_BLUR_SECRET=$(openssl rand -base64 24) nearjob migrate --blur-m 500`
}

func (c *migrateCmd) Run(ctx context.Context, s streams) (err error) {
	c.AutoMigrate = true
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if c.BlurM != nil {
		n, err := e.Count(ctx) // not all are open: only for the progress
		if err != nil {
			return err
		}
		bar := newProgress(s.err, "places", int64(n), inRows)
		err = e.Reblur(ctx, func(done int) { bar.to(int64(done)) })
		bar.end()
		if err != nil {
			return err
		}
	}
	// Without --blur-m nothing was asked about places, and they need not be this program's.
	if err := e.Ready(ctx); err != nil && (c.BlurM != nil || !errors.Is(err, store.ErrPlaces)) {
		return err
	}
	places := ""
	if c.BlurM != nil {
		places = fmt.Sprintf(", its places are %v", e.Blur())
	}
	_, err = fmt.Fprintf(s.out, "the %s schema is at this program's version%s\n", e.Name(), places)
	return err
}
