package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/nearjob/nearjob/bench/plan"
)

type plansDiffCmd struct {
	A    string `arg:"" help:"A file with the output of EXPLAIN or EXPLAIN ANALYZE; - for standard input."`
	B    string `arg:"" help:"Another one."`
	JSON bool   `name:"json" help:"Print the comparison as JSON."`
}

func (plansDiffCmd) Help() string {
	return `It reads FORMAT=TREE and FORMAT=JSON (versions 1 and 2) of MySQL 8.0 to 9.7, as people paste it: raw, in the client's frame, as \G, with \n escapes. First it says what differs in shape and access, then in rows and time.

Example:

    nearjob plans diff before.txt after.json`
}

func (c *plansDiffCmd) Run(s streams) error {
	if c.A == "-" && c.B == "-" {
		return usage("only one of the plans can be standard input")
	}
	a, err := readPlan(c.A, s)
	if err != nil {
		return err
	}
	b, err := readPlan(c.B, s)
	if err != nil {
		return err
	}
	d := plan.Diff(a, b)
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	return d.WriteText(s.out, columns(s.out))
}

// readPlan reads the one plan of a file. What could not be read in it is told on
// standard error, with its line.
func readPlan(name string, s streams) (plan.Plan, error) {
	src := s.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return plan.Plan{}, err
		}
		defer f.Close() // it was only read
		src = f
	}
	plans, err := plan.Parse(src)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(plans) > 1 {
		return plan.Plan{}, fmt.Errorf("%s holds %d plans: leave one in each file", name, len(plans))
	}
	p := plans[0]
	for _, w := range p.Warnings {
		fmt.Fprintf(s.err, "%s:%d: %s\n", name, w.Line, w.Text)
	}
	for _, l := range p.Unread {
		fmt.Fprintf(s.err, "%s:%d: not read: %.200q\n", name, l.Number, l.Text)
	}
	return p, nil
}

// columns is the width of a terminal, or 0 where w is none.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
