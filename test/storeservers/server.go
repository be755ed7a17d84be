package storeservers

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

const (
	readyTimeout  = time.Minute
	readyInterval = 10 * time.Millisecond
	// starts is how often a server is started that finds its port taken.
	starts = 5
)

// Server is a process that answers HTTP.
type Server struct {
	// URL is where it answers, without a slash at the end.
	URL string

	name    string
	log     string // path
	process *proc.Process
}

// command is how to run a server.
type command struct {
	program string // its name in .tools, or a path
	// args returns the arguments for an address to listen on, host:port.
	args   func(address string) []string
	env    []string     // besides that of the tests
	scheme string       // http if empty
	client *http.Client // asks whether it answers; http.DefaultClient if nil
	ready  string       // path to ask for; / if empty
}

// start runs a server until the test ends, and returns when it answers HTTP
// without complaining about itself: with any status below 500.
func start(t testing.TB, c command) *Server {
	t.Helper()
	name := filepath.Base(c.program)
	s := &Server{name: name, log: filepath.Join(t.TempDir(), name+".log")}
	t.Cleanup(func() { s.cleanup(t) })
	var err error
	for range starts {
		if err = s.try(t, c); err == nil {
			return s
		}
		if !strings.Contains(s.logTail(20), "address already in use") {
			break
		}
	}
	t.Fatal(err)
	return nil
}

// try starts the server on some free port.
func (s *Server) try(t testing.TB, c command) error {
	t.Helper()
	address := freeAddress(t)
	s.URL = cmp.Or(c.scheme, "http") + "://" + address
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(proc.Tool(t, c.program), c.args(address)...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = proc.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	return s.wait(t, cmp.Or(c.client, http.DefaultClient), s.URL+cmp.Or(c.ready, "/"))
}

// wait returns when the server answers.
func (s *Server) wait(t testing.TB, client *http.Client, url string) error {
	t.Helper()
	for began := time.Now(); time.Since(began) < readyTimeout; {
		if healthy(t, client, url) {
			return nil
		}
		select {
		case <-t.Context().Done():
			return t.Context().Err()
		case <-s.process.Ended():
			return fmt.Errorf("%s ended before it answered", s.name)
		case <-time.After(readyInterval):
		}
	}
	return fmt.Errorf("%s does not answer after %v", s.name, readyTimeout)
}

func healthy(t testing.TB, client *http.Client, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode < http.StatusInternalServerError
}

func (s *Server) cleanup(t testing.TB) {
	if s.process != nil {
		s.process.Kill()
	}
	if t.Failed() {
		t.Logf("end of the log of %s:\n%s", s.name, s.logTail(20))
	}
}

// Pause stops the server where it stands, until Resume: connections stay, and
// nobody answers.
func (s *Server) Pause() { s.process.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.process.Resume() }

// logTail returns the last lines that the server has logged.
func (s *Server) logTail(lines int) string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	all := slices.Collect(strings.Lines(string(bytes.TrimSpace(data))))
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// freeAddress returns an address on loopback that is free now. The kernel hands
// ports out in random order, so that it hardly gives this one to another.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
