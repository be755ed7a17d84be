package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// progressPeriod is the time between two lines where there is no terminal, and
	// barPeriod where there is one.
	progressPeriod = 10 * time.Second
	barPeriod      = 200 * time.Millisecond
	barWidth       = 20
	clearLine      = "\r\x1b[K" // back to the margin, clear the line
)

// console is where a command speaks: results to out, the rest to err.
type console struct {
	out, err io.Writer
	bar      atomic.Bool // a progress bar is on the terminal's last line
}

// logWriter writes whole log lines, in place of a progress bar that is drawn
// again a moment later.
type logWriter struct{ *console }

func (l logWriter) Write(line []byte) (int, error) {
	if l.bar.Load() {
		_, _ = io.WriteString(l.err, clearLine)
	}
	return l.err.Write(line)
}

// progress shows how far a long piece of work is: on a terminal as a bar with
// rate and ETA, elsewhere as a log line every progressPeriod. The work calls
// report with bytes; call stop when it has ended.
func (e *env) progress(ctx context.Context, what string) (report func(done, total int64), stop func()) {
	if !isTerminal(e.err) {
		return e.progressEvery(ctx, progressPeriod, func(at advance) {
			e.log.Info("in progress", slog.String("what", what), at.facts())
		})
	}
	report, stop = e.progressEvery(ctx, barPeriod, func(at advance) { e.draw(what, at) })
	return report, func() {
		stop()
		if e.bar.CompareAndSwap(true, false) {
			_, _ = io.WriteString(e.err, "\n")
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progressEvery calls show each period with what was reported last, until stop.
func (e *env) progressEvery(ctx context.Context, period time.Duration, show func(advance)) (report func(done, total int64), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done, total atomic.Int64
	began := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		t := time.NewTicker(period)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				show(advance{done.Load(), total.Load(), time.Since(began)})
			case <-ctx.Done():
				return nil
			}
		}
	})
	report = func(d, t int64) { done.Store(d); total.Store(t) }
	stop = func() { cancel(); _ = g.Wait() }
	return report, stop
}

// advance is how far a piece of work is, in bytes; the total is 0 while it is not
// known.
type advance struct {
	done, total int64
	elapsed     time.Duration
}

func (p advance) rate() float64 { return float64(p.done) / p.elapsed.Seconds() }

// eta is how long it takes still, if that can be told.
func (p advance) eta() (left time.Duration, known bool) {
	if p.total <= 0 || p.done <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.total-p.done) / p.rate() * float64(time.Second)).Round(time.Second), true
}

// facts are those of a progress line.
func (p advance) facts() slog.Attr {
	facts := []any{"done", bytesize(p.done).String(), "rate", bytesize(p.rate()).String() + "/s"}
	if eta, known := p.eta(); known {
		facts = append(facts, "of", bytesize(p.total).String(), "eta", eta.String())
	}
	return slog.Group("", facts...)
}

// draw writes the bar over the one before, from the first report on.
func (e *env) draw(what string, at advance) {
	if at.done == 0 && at.total == 0 {
		return
	}
	e.bar.Store(true)
	_, _ = io.WriteString(e.err, clearLine+what+" "+at.bar())
}

// bar is one line that fits a terminal of 80 columns.
func (p advance) bar() string {
	text := fmt.Sprintf("%s  %s/s", bytesize(p.done), bytesize(p.rate()))
	eta, known := p.eta()
	if !known {
		return text
	}
	full := int(min(p.done, p.total) * barWidth / p.total)
	return fmt.Sprintf("[%s%s] %3d%%  %s  of %s  %s left",
		strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), min(p.done, p.total)*100/p.total, text, bytesize(p.total), eta)
}
