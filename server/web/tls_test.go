package web

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/test/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are those of a TLS, and what is said about them.
type files struct {
	t *testing.T
	TLS
	log     lines
	metrics *Metrics
}

func newFiles(t *testing.T) *files {
	t.Helper()
	dir := t.TempDir()
	return &files{
		t: t, metrics: NewMetrics(prometheus.NewRegistry()),
		TLS: TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "ca")},
	}
}

func (f *files) put(cert, key []byte, clients ...*certs.Authority) {
	f.t.Helper()
	var ca []byte
	for _, a := range clients {
		ca = append(ca, a.PEM()...)
	}
	certs.Write(f.t, map[string][]byte{f.CertFile: cert, f.KeyFile: key, f.ClientCAFile: ca})
}

func (f *files) open() *Certificates {
	f.t.Helper()
	c, err := f.Open()
	if err != nil {
		f.t.Fatal(err)
	}
	c.Log, c.Metrics = slog.New(slog.NewTextHandler(&f.log, nil)), f.metrics
	return c
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// TestBadFilesLeaveTheLastGoodOnesInUse looks at each way in which files can be bad,
// and at what is said of it: once, however often somebody connects.
func TestBadFilesLeaveTheLastGoodOnesInUse(t *testing.T) {
	ca := certs.New(t)
	cert, key := ca.Pair(t, "one", time.Hour)
	otherCert, otherKey := ca.Pair(t, "two", time.Hour)
	oldCert, oldKey := ca.Pair(t, "old", -time.Hour)
	for name, bad := range map[string]func(*files){
		"half a certificate":     func(f *files) { f.put(otherCert[:100], otherKey, ca) },
		"a key of another one":   func(f *files) { f.put(otherCert, key, ca) },
		"no key":                 func(f *files) { f.put(otherCert, nil, ca) },
		"an expired certificate": func(f *files) { f.put(oldCert, oldKey, ca) },
		"no CA in the CA's file": func(f *files) { f.put(otherCert, otherKey) },
		"no certificate in the CA": func(f *files) {
			f.put(otherCert, otherKey, ca)
			_ = os.WriteFile(f.ClientCAFile, []byte("none"), 0o600)
		},
		"no file": func(f *files) { _ = os.Remove(f.CertFile) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			f.put(cert, key, ca)
			synctest.Test(t, func(t *testing.T) {
				pass(time.Until(ca.Cert.NotBefore.Add(2 * time.Hour))) // virtual time begins earlier
				c := f.open()
				serves := func(want string) {
					t.Helper()
					for range 3 {
						pass(lookAgain)
						if got := c.now().leaf.DNSNames[0]; got != want {
							t.Errorf("it is %s, want %s", got, want)
						}
					}
				}
				serves("one")
				bad(f)
				serves("one")
				wantValues(t, f.metrics, 0, 1, 1)
				if n := f.log.count("level=ERROR"); n != 1 {
					t.Errorf("%d lines about it, want 1: %s", n, f.log.text.String())
				}
				f.put(cert, key, ca)
				serves("one")
				wantValues(t, f.metrics, 0, 1, 0)
				bad(f)
				serves("one")
				f.put(otherCert, otherKey, ca)
				serves("two")
				wantValues(t, f.metrics, 1, 2, 0)
				if got := testutil.ToFloat64(f.metrics.expiry); int64(got) != c.good.leaf.NotAfter.Unix() {
					t.Errorf("it expires at %v", got)
				}
			})
		})
	}
}

func wantValues(t *testing.T, m *Metrics, ok, failed, unusable float64) {
	t.Helper()
	got := []float64{
		testutil.ToFloat64(m.reloads.WithLabelValues("ok")), testutil.ToFloat64(m.reloads.WithLabelValues("error")), testutil.ToFloat64(m.unusable),
	}
	if got[0] != ok || got[1] != failed || got[2] != unusable {
		t.Errorf("changes %v, bad ones %v, unusable %v; want %v, %v, %v", got[0], got[1], got[2], ok, failed, unusable)
	}
}

func TestFilesThatCannotBeUsedAtFirst(t *testing.T) {
	f := newFiles(t)
	f.put([]byte("none"), nil)
	if _, err := f.Open(); err == nil {
		t.Error("no certificate is one")
	}
	if c, err := (TLS{}).Open(); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
}

// served is a server with TLS that says who has called.
func (f *files) served(c *Certificates) (address string) {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cert := c.Client(r.TLS); cert != nil {
			w.Header().Set("Caller", cert.DNSNames[0])
		}
	}))
	s.Log, s.Metrics = slog.New(slog.DiscardHandler), f.metrics
	ctx, stop := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, c.Over(l)) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestWhoIsNoLongerTrustedLosesItsConnectionsRights: an authority that was taken out
// counts no more on connections that are open either, and a ticket brings nobody
// back.
func TestWhoIsNoLongerTrustedLosesItsConnectionsRights(t *testing.T) {
	f, ca, other := newFiles(t), certs.New(t), certs.New(t)
	cert, key := ca.Pair(t, "localhost", time.Hour)
	f.put(cert, key, ca, other)
	c := f.open()
	address := f.served(c)
	config := other.Client(t, "me", ca)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(10)
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	ask := func() (caller string, err error) {
		r, err := (&http.Client{Transport: transport}).Get("https://" + address)
		if err != nil {
			return "", err
		}
		_ = r.Body.Close()
		if r.TLS.DidResume {
			t.Error("a session was taken up again")
		}
		return r.Header.Get("Caller"), nil
	}
	if caller, err := ask(); caller != "me" || err != nil {
		t.Fatalf("caller %q, %v", caller, err)
	}
	f.put(cert, key, ca)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // sockets have no virtual time
		caller, err := ask()
		if err != nil {
			t.Fatalf("the open connection: %v", err)
		}
		if caller == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is trusted as before")
		}
	}
	transport.CloseIdleConnections()
	if _, err := ask(); err == nil {
		t.Error("a new connection with a certificate that is not trusted")
	}
}
