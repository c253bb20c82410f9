package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far long work is: a bar with rate and time left on a terminal,
// otherwise a plain line now and then. schollz/progressbar draws the bar: MIT,
// maintained, and it knows how terminals of all sizes behave.
type progress struct {
	w     io.Writer
	label string
	total int64 // 0: unknown
	bar   *progressbar.ProgressBar
	start time.Time
	next  time.Time
	done  int64
}

const plainInterval = 5 * time.Second

// unit is what is counted.
type unit string

const (
	inRows  unit = "rows"
	inSteps unit = "steps"
	inBytes unit = "bytes"
)

func newProgress(w io.Writer, label string, total int64, of unit) *progress {
	p := &progress{w: w, label: label, total: total, start: time.Now()}
	p.next = p.start.Add(plainInterval)
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	most := total
	if most == 0 {
		most = -1 // a spinner
	}
	opts := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(label),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
	}
	switch of {
	case inBytes:
		opts = append(opts, progressbar.OptionShowBytes(true))
	case inRows:
		opts = append(opts, progressbar.OptionShowIts(), progressbar.OptionSetItsString(string(of)))
	}
	p.bar = progressbar.NewOptions64(most, opts...)
	return p
}

// to says how much is done by now. What it prints is a courtesy: an error in
// writing it is no reason to stop the work.
func (p *progress) to(n int64) {
	p.done = n
	if p.bar != nil {
		_ = p.bar.Set64(n)
		return
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(plainInterval)
		if p.total > 0 {
			left := time.Duration(float64(now.Sub(p.start)) * float64(p.total-n) / float64(max(n, 1)))
			fmt.Fprintf(p.w, "%s: %d%%, about %s left\n", p.label, 100*n/p.total, left.Round(time.Second))
		} else {
			fmt.Fprintf(p.w, "%s: %d so far\n", p.label, n)
		}
	}
}

// step says that so many of all steps are done, and what comes now.
func (p *progress) step(done, total int, what string) {
	p.total = int64(total)
	p.label = what
	if p.bar != nil {
		p.bar.ChangeMax64(p.total)
		p.bar.Describe(what)
	}
	p.to(int64(done))
}

// end takes the bar off the screen.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
