package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// safeBuffer may be read while others write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestProgressWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := new(safeBuffer)
		e := &env{console: &console{err: logs}, log: slog.New(slog.NewTextHandler(logs, nil))}
		report, stop := e.progress(t.Context(), "restore")
		report(100<<20, 400<<20)
		<-time.After(9 * time.Second)
		if got := logs.String(); got != "" {
			t.Errorf("a line after 9 s: %s", got)
		}
		<-time.After(2 * time.Second)
		for _, want := range []string{"what=restore", "done=100MiB", "of=400MiB", "rate=10MiB/s", "eta=30s"} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("%q is missing in %s", want, logs)
			}
		}
		<-time.After(10 * time.Second)
		if n := strings.Count(logs.String(), "\n"); n != 2 {
			t.Errorf("%d lines after 21 s, want 2", n)
		}
		stop()
	})
}

func TestLogLinesReplaceTheProgressBar(t *testing.T) {
	var screen bytes.Buffer
	c := &console{err: &screen}
	log := slog.New(slog.NewTextHandler(logWriter{c}, nil))
	log.Info("before")
	c.bar.Store(true)
	log.Info("during")
	lines := strings.Split(screen.String(), "\n")
	if strings.HasPrefix(lines[0], "\r") || !strings.HasPrefix(lines[1], "\r\x1b[K") {
		t.Errorf("the screen got %q", lines)
	}
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		at   advance
		want string
	}{
		{advance{100 << 20, 400 << 20, 10 * time.Second}, "[=====               ]  25%  100MiB  10MiB/s  of 400MiB  30s left"},
		{advance{400 << 20, 400 << 20, 10 * time.Second}, "[====================] 100%  400MiB  40MiB/s  of 400MiB  0s left"},
		{advance{500 << 20, 400 << 20, 10 * time.Second}, "[====================] 100%"}, // a total that was too low
		{advance{100 << 20, 0, 10 * time.Second}, "100MiB  10MiB/s"},
	} {
		if got := c.at.bar(); !strings.HasPrefix(got, c.want) || len(got) > 70 {
			t.Errorf("%+v is shown as %q, want %q", c.at, got, c.want)
		}
	}
	var screen bytes.Buffer
	e := &env{console: &console{err: &screen}}
	e.draw("restore", advance{elapsed: time.Second})
	if screen.Len() > 0 || e.bar.Load() {
		t.Errorf("before the first report: %q", screen.String())
	}
	e.draw("restore", advance{1, 2, time.Second})
	if got := screen.String(); !strings.HasPrefix(got, "\r\x1b[Krestore [") || !e.bar.Load() {
		t.Errorf("drawn is %q", got)
	}
}
