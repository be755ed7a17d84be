package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cheggaaa/pb/v3"
	"golang.org/x/sync/errgroup"
)

// progressPeriod is the time between two lines where there is no terminal.
const progressPeriod = 10 * time.Second

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
		_, _ = io.WriteString(l.err, "\r\x1b[K") // back to the margin, clear the line
	}
	return l.err.Write(line)
}

// progress shows how far a long piece of work is: on a terminal as a bar with
// rate and ETA, elsewhere as a log line every progressPeriod. The work calls
// report with bytes; call stop when it has ended.
func (e *env) progress(ctx context.Context, what string) (report func(done, total int64), stop func()) {
	if isTerminal(e.err) {
		return e.progressBar(what)
	}
	return e.progressLines(ctx, what)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progressBar draws nothing before the first report.
func (e *env) progressBar(what string) (report func(done, total int64), stop func()) {
	bar := pb.Full.New(0).Set("prefix", what).Set(pb.Bytes, true).SetWriter(e.err)
	var start sync.Once
	report = func(done, total int64) {
		bar.SetTotal(total).SetCurrent(done)
		start.Do(func() {
			bar.Start()
			e.bar.Store(true)
		})
	}
	stop = func() {
		if e.bar.CompareAndSwap(true, false) {
			bar.Finish()
		}
	}
	return report, stop
}

func (e *env) progressLines(ctx context.Context, what string) (report func(done, total int64), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done, total atomic.Int64
	began := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		t := time.NewTicker(progressPeriod)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				e.log.Info("in progress", slog.String("what", what), progressOf(done.Load(), total.Load(), time.Since(began)))
			case <-ctx.Done():
				return nil
			}
		}
	})
	report = func(d, t int64) { done.Store(d); total.Store(t) }
	stop = func() { cancel(); _ = g.Wait() }
	return report, stop
}

// progressOf returns the facts of a progress line.
func progressOf(done, total int64, elapsed time.Duration) slog.Attr {
	rate := float64(done) / elapsed.Seconds()
	facts := []any{"done", bytesize(done).String(), "rate", bytesize(rate).String() + "/s"}
	if total > 0 && done > 0 {
		eta := time.Duration(float64(total-done) / rate * float64(time.Second))
		facts = append(facts, "of", bytesize(total).String(), "eta", eta.Round(time.Second).String())
	}
	return slog.Group("", facts...) // without a name its members are inlined
}
