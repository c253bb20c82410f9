package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/nearjob/nearjob/store"
)

// outboxCmd is the operator's view of the messages to users.
type outboxCmd struct {
	List   outboxListCmd   `cmd:"" help:"List messages: those that were given up, unless another state is named."`
	Replay outboxReplayCmd `cmd:"" help:"Deliver messages again."`
}

type outboxListCmd struct {
	database
	State string `default:"dead" enum:"pending,delivered,dead" help:"pending, delivered or dead."`
	Limit int    `default:"100" help:"Messages at the most."`
	After string `placeholder:"ID" help:"Only messages behind this one."`
}

func (outboxListCmd) Help() string {
	return `Example:

    nearjob outbox list --state pending`
}

func (c *outboxListCmd) Run(ctx context.Context, s streams) (err error) {
	k := store.Keys{Limit: c.Limit}
	if c.After != "" {
		id, err := store.ParseID(c.After)
		if err != nil {
			return usage("--after: %v", err)
		}
		k.After = int64(id)
	}
	if err := k.Validate(); err != nil {
		return usageError{err}
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	messages, err := e.List(ctx, store.MessageState(c.State), k)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tAT\tJOB\tACTION\tRECIPIENT\tATTEMPTS\tLAST ERROR")
	for _, m := range messages {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%q\t%d\t%.200q\n",
			m.ID, m.At.Format(time.RFC3339), m.Job, m.Action, m.Recipient, m.Attempts, m.LastError)
	}
	return w.Flush()
}

type outboxReplayCmd struct {
	database
	IDs []string `arg:"" optional:"" name:"id" help:"Messages."`
	All bool     `help:"All that were given up."`
}

func (outboxReplayCmd) Help() string {
	return `Messages that were delivered are delivered once more; they keep their ids, so that recipients can tell.

Example:

    nearjob outbox replay --all`
}

func (c *outboxReplayCmd) Run(ctx context.Context, s streams) (err error) {
	if c.All == (len(c.IDs) > 0) {
		return usage("name messages, or --all")
	}
	var ids []store.ID
	for _, text := range c.IDs {
		id, err := store.ParseID(text)
		if err != nil {
			return usageError{err}
		}
		ids = append(ids, id)
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	n := 0
	if c.All {
		n, err = replayDead(ctx, e)
	} else {
		n, err = e.Replay(ctx, ids, time.Now())
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%d messages will be delivered again\n", n)
	return err
}

// replayDead replays all messages that are given up, and returns how many.
func replayDead(ctx context.Context, e store.OutboxAdmin) (int, error) {
	n := 0
	k := store.Keys{Limit: store.MaxKeys}
	for {
		messages, err := e.List(ctx, store.Dead, k)
		if err != nil || len(messages) == 0 {
			return n, err
		}
		ids := make([]store.ID, len(messages))
		for i, m := range messages {
			ids[i] = m.ID
		}
		more, err := e.Replay(ctx, ids, time.Now())
		n += more
		if err != nil {
			return n, err
		}
		k.After = int64(ids[len(ids)-1])
	}
}
