package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// pipes is a listener of connections in memory, for virtual time.
type pipes struct {
	made chan net.Conn
	once sync.Once
	shut chan struct{}
}

func newPipes() *pipes { return &pipes{made: make(chan net.Conn), shut: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.shut) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns a client's end.
func (p *pipes) dial() *client {
	near, far := net.Pipe()
	p.made <- far
	return &client{near, bufio.NewReader(near)}
}

type client struct {
	net.Conn
	answers *bufio.Reader
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// get asks for a path and returns the status, 0 if the connection has ended.
func (c *client) get(path string) int {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return 0
	}
	return c.status()
}

func (c *client) status() int {
	r, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return r.StatusCode
}

// ended reports whether the other side has hung up.
func (c *client) ended() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.answers.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	return err == io.EOF
}

// inServer runs test against a server, in virtual time.
func inServer(t *testing.T, h http.HandlerFunc, change func(*Server), test func(*testing.T, *pipes, *Metrics)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, s := newPipes(), NewServer(h)
		s.Log, s.Metrics = slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry())
		if change != nil {
			change(s)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Serve(ctx, p) }()
		test(t, p, s.Metrics)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := testutil.ToFloat64(s.Metrics.open); n != 0 {
			t.Errorf("%v connections are said to be open at the end", n)
		}
	})
}

// TestLongWorkIsNotCutOff: neither the time of a request's body nor that of an answer
// is that of the work between them.
func TestLongWorkIsNotCutOff(t *testing.T) {
	long := 10 * DefaultWriteTimeout
	inServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(long):
			if r.URL.Path == "/" {
				Answering(w)
			}
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
			t.Error("the work was told to end")
		}
	}, nil, func(t *testing.T, p *pipes, _ *Metrics) {
		c := p.dial()
		defer c.Close()
		if status := c.get("/"); status != http.StatusOK {
			t.Errorf("work of %v: %d", long, status)
		}
		if status := c.get("/late"); status != 0 {
			t.Errorf("an answer that comes too late: %d", status)
		}
	})
}

// TestSlowCallersAreCutOff: a header, a body, and an answer have their time, and
// idle connections end.
func TestSlowCallersAreCutOff(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler) // an answer would have its own time
		}
		_, _ = w.Write(make([]byte, 1<<20))
	}
	for name, slow := range map[string]struct {
		says   string
		within time.Duration
	}{
		"silent":        {"", readTimeout},
		"half a header": {"GET / HTTP/1.1\r\nHost:", readTimeout},
		"half a body":   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345", readTimeout},
		"deaf":          {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", DefaultWriteTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inServer(t, echo, nil, func(t *testing.T, p *pipes, m *Metrics) {
				c := p.dial()
				defer c.Close()
				if _, err := io.WriteString(c, slow.says); err != nil {
					t.Fatal(err)
				}
				pass(slow.within - time.Second)
				if n := testutil.ToFloat64(m.open); n != 1 {
					t.Error("it was cut off early")
				}
				pass(2 * time.Second)
				synctest.Wait()
				if n := testutil.ToFloat64(m.open); n != 0 {
					t.Errorf("it is there after %v", slow.within)
				}
			})
		})
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	inServer(t, func(http.ResponseWriter, *http.Request) {}, nil, func(t *testing.T, p *pipes, m *Metrics) {
		c := p.dial()
		defer c.Close()
		for range 3 {
			if status := c.get("/"); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			pass(idleTimeout - time.Second)
		}
		pass(2 * time.Second)
		synctest.Wait()
		if n := testutil.ToFloat64(m.open); n != 0 {
			t.Error("it is there still")
		}
	})
}

// TestCrowd: whoever comes is let in; out goes first who asks for nothing, then
// who waits longest, and nobody who changes something.
func TestCrowd(t *testing.T) {
	const most = 4
	var hold chan struct{}
	inServer(t, func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/change":
			Keep(r)
			<-hold
		case "/wait":
			<-hold
		}
	}, func(s *Server) { s.MaxConns, hold = most, make(chan struct{}) }, func(t *testing.T, p *pipes, m *Metrics) {
		come := func(path string) *client {
			c := p.dial()
			t.Cleanup(func() { _ = c.Close() })
			if path != "" {
				if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Second)
			return c
		}
		healthz := func() {
			t.Helper()
			c := p.dial()
			defer c.Close()
			if status := c.get("/"); status != http.StatusOK {
				t.Errorf("the newest is answered %d", status)
			}
		}
		here := func(what string, c *client, want bool) {
			t.Helper()
			synctest.Wait()
			if c.ended() == want {
				t.Errorf("%s is here: %v", what, !want)
			}
		}
		changes, waits, silent, idle := come("/change"), come("/wait"), come(""), come("")
		if status := idle.get("/"); status != http.StatusOK {
			t.Fatal(status)
		}
		pass(time.Second)
		healthz()
		here("who is silent for longer", silent, false)
		here("who has asked for something", idle, true)
		come("")
		healthz()
		here("who has asked for something before", idle, false)
		here("who waits", waits, true)
		come("/change")
		come("/change")
		healthz()
		here("who waits while the others change something", waits, false)
		here("who changes something", changes, true)
		if n := testutil.ToFloat64(m.shed); n < 3 {
			t.Errorf("%v were closed", n)
		}
		close(hold)
		if status := changes.status(); status != http.StatusOK {
			t.Errorf("what changes something is answered %d", status)
		}
	})
}

func TestProfilesAreForThisMachine(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:6060": true, "[::1]:6060": true, "localhost:0": true, "127.9.9.9:1": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.1:6060": false, "example.com:6060": false, "6060": false,
	} {
		if err := CheckLoopback(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	var seen strings.Builder
	w := recorder{header: http.Header{}, body: &seen}
	r, _ := http.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
	Profiles().ServeHTTP(w, r)
	if seen.Len() == 0 {
		t.Error("no command line")
	}
}

type recorder struct {
	header http.Header
	body   io.Writer
}

func (r recorder) Header() http.Header         { return r.header }
func (r recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r recorder) WriteHeader(int)             {}
