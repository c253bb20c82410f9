package main

import (
	"context"
	"errors"
	"fmt"
)

type migrateCmd struct {
	database
}

func (migrateCmd) Help() string {
	return `Any number of nodes may migrate at once: one does it, the others wait.

Example:

    nearjob migrate --db mysql://nearjob:secret@127.0.0.1:3306/nearjob`
}

func (c *migrateCmd) Run(ctx context.Context, s streams) (err error) {
	c.AutoMigrate = true
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.Ready(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "the %s schema is at this program's version\n", e.Name())
	return err
}
