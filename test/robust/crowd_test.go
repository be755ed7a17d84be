package robust

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

const (
	callers = 10_000
	// atOnce of them come every arrival.
	atOnce  = 50
	arrival = 25 * time.Millisecond
	// sidecarMemory bounds what it may hold however many call: bytes.
	sidecarMemory = 256 << 20
	// prompt is within what /healthz has to answer, and late what a machine that is busy
	// with other things may make of it for one in twenty.
	prompt, late = time.Second, 10 * time.Second
)

// sidecar is an etcd-ferry server of the test, and how to talk to it.
type sidecar struct {
	*process
	t   *testing.T
	url string
	web *http.Client
}

// startSidecar runs a server with an owner id beside an etcd that runs already.
func startSidecar(t *testing.T, e *etcdtest.Etcd, trusted *tls.Config, args ...string) *sidecar {
	t.Helper()
	address := proc.Address(t)
	scheme := "http"
	if trusted != nil {
		scheme = "https"
	}
	s := &sidecar{t: t, url: scheme + "://" + address, web: &http.Client{
		Transport: &http.Transport{TLSClientConfig: trusted, DisableKeepAlives: true}, Timeout: time.Minute,
	}}
	s.process = start(t, ferry(t), append([]string{
		"server", "--owner-id=a", "--data-dir", e.DataDir, "--state-dir", filepath.Join(t.TempDir(), "state"), "--listen", address,
		"--poll-period=200ms", "--read-timeout=3s", "--lease=40s", "--kill-grace=10s", "--kill-budget=15s", "--watchdog=30s", "--full-schedule=",
	}, args...)...)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it would end the etcd in order
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	s.until("it is ready", func() bool { status, _ := s.ask(http.MethodGet, "/healthz", "", nil); return status == http.StatusOK })
	return s
}

func (s *sidecar) until(what string, holds func() bool) {
	s.t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // other processes have no virtual time
		if time.Since(began) > 2*time.Minute {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// ask returns status and body of an answer; 0 and the reason if there is none.
func (s *sidecar) ask(method, path, token string, body io.Reader) (int, string) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.web.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// metric returns the value of one by its name with labels.
func (s *sidecar) metric(name string) (float64, error) {
	status, text := s.ask(http.MethodGet, "/metrics", "", nil)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s in the answer %d: %.200s", name, status, text)
}

func (s *sidecar) value(name string) float64 {
	s.t.Helper()
	v, err := s.metric(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// noReadFailed wants that of all reads of the sync object, on which the lease
// depends, none has failed.
func (s *sidecar) noReadFailed() {
	s.t.Helper()
	if n := s.value(`etcd_ferry_sync_object_reads_total{result="error"}`); n != 0 || s.value(`etcd_ferry_sync_object_reads_total{result="ok"}`) < 5 {
		s.t.Errorf("%v reads of the store failed", n)
	}
}

// memory is the resident size of the process, without the pages of the program.
func (s *sidecar) memory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.Atoi(kilobytes)
	if err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}

// affordable is how many connections this process can have.
func affordable(t *testing.T) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	return int(min(callers, files.Cur-500))
}

// TestRow48Crowd: ten thousand callers who are silent, slow or deaf, and one who sends
// a gigabyte, are in nobody's way: health is answered within a second, the lease
// goes on, and so does the backup.
func TestRow48Crowd(t *testing.T) {
	e := etcdtest.Start(t)
	s := startSidecar(t, e, nil, "--store=file://"+t.TempDir(), "--etcd-endpoints="+e.Endpoint(), "--delta-period=500ms")
	address := strings.TrimPrefix(s.url, "http://")
	ctx, disperse := context.WithCancel(t.Context())
	defer disperse()
	var took []time.Duration
	var largest int
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			for _, path := range []string{"/healthz", "/livez/etcd"} {
				d, err := s.probe(path)
				if err != nil {
					return err
				}
				took = append(took, d)
			}
			largest = max(largest, s.memory())
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // other processes have no virtual time
		}
		return nil
	})
	n := affordable(t)
	// They come within seconds: whoever comes stays for long enough to be answered if
	// fewer than the server keeps come meanwhile.
	pace := time.NewTicker(arrival)
	defer pace.Stop()
	kinds := []string{
		"", // says nothing
		"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",                                // and goes on byte by byte
		"POST /copyop/initiate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{", // as well
	}
	conns := make([]net.Conn, n)
	var dialing errgroup.Group
	dialing.SetLimit(64)
	for i := range n {
		if i%atOnce == 0 {
			<-pace.C
		}
		dialing.Go(func() error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", address)
			if err != nil {
				return fmt.Errorf("caller %d: %w", i, err)
			}
			if i%500 == 0 { // takes no answer
				_, _ = io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 50))
			} else {
				_, _ = io.WriteString(c, kinds[i%len(kinds)]) // he may have been sent away by now
			}
			conns[i] = c
			return nil
		})
	}
	if err := dialing.Wait(); err != nil {
		t.Error(err)
	}
	drip := func() {
		for i, c := range conns {
			if c != nil && i%500 != 0 && i%len(kinds) != 0 {
				_, _ = c.Write([]byte("x"))
			}
		}
	}
	gigabyte(t, address, "Content-Length: 1073741824\r\n")
	gigabyte(t, address, "Transfer-Encoding: chunked\r\n")
	stored := s.value(`etcd_ferry_snapshots_total{kind="delta",result="ok"}`)
	e.Fill(t, 10, 100)
	for range 3 {
		drip()
		time.Sleep(time.Second) //nolint:forbidigo // other processes have no virtual time
	}
	s.until("a delta is stored", func() bool { return s.value(`etcd_ferry_snapshots_total{kind="delta",result="ok"}`) > stored })
	s.noReadFailed()
	shed := s.value("etcd_ferry_http_connections_shed_total")
	if shed < float64(n)/2 {
		t.Errorf("of %d callers %v were sent away", n, shed)
	}
	disperse()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
	slices.Sort(took)
	if len(took) < 20 {
		t.Fatalf("only %d probes", len(took))
	}
	most := took[len(took)*95/100]
	t.Logf("%d callers, %v sent away; %d probes, 95 in 100 within %v, the slowest within %v; the most memory was %d MiB",
		n, shed, len(took), most, took[len(took)-1], largest>>20)
	if most > prompt || took[len(took)-1] > late {
		t.Errorf("of %d answers 95 in 100 took up to %v, the slowest %v", len(took), most, took[len(took)-1])
	}
	if largest > sidecarMemory {
		t.Errorf("it held %d MiB", largest>>20)
	}
}

// probe asks until it is answered, and returns how long that took. Who was sent away
// before he was heard comes again.
func (s *sidecar) probe(path string) (time.Duration, error) {
	for began := time.Now(); ; {
		status, text := s.ask(http.MethodGet, path, "", nil)
		switch {
		case status == http.StatusOK:
			return time.Since(began), nil
		case status != 0 || time.Since(began) > late:
			return 0, fmt.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// gigabyte sends one to /copyop/initiate, and wants 413 long before the end.
func gigabyte(t *testing.T, address, header string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan int64, 1)
	go func() {
		var n int64
		defer func() { sent <- n }()
		if _, err := io.WriteString(c, "POST /copyop/initiate HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
			return
		}
		piece := make([]byte, 1<<20)
		for n < 1<<30 {
			if strings.HasPrefix(header, "Transfer") {
				if _, err := fmt.Fprintf(c, "%x\r\n", len(piece)); err != nil {
					return
				}
				piece = append(piece[:1<<20], '\r', '\n')
			}
			wrote, err := c.Write(piece)
			n += int64(wrote)
			if err != nil {
				return
			}
			piece = piece[:1<<20]
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("%s: %v", header, err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s: %s", header, answer.Status)
	}
	if n := <-sent; n >= 1<<29 {
		t.Errorf("%s: %d MiB were taken", header, n>>20)
	}
}
