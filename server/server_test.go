package server_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDaemon(t *testing.T, e *etcdtest.Etcd) *server.Daemon {
	t.Helper()
	c, err := etcd.Dial(context.WithoutCancel(t.Context()), etcd.Config{Endpoints: []string{e.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	a, reg := archive.New(mem.New()), prometheus.NewRegistry()
	s := snapshotter.New(c, a)
	s.Log, s.Metrics = log, snapshotter.NewMetrics(reg)
	d := server.New(c, a, s)
	d.Log, d.Metrics, d.HealthTimeout = log, server.MetricsHandler(reg), 500*time.Millisecond
	return d
}

// call answers status and body of one request to h.
func call(h http.Handler, method, path, peer string) (int, string) {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = peer
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const here, elsewhere = "127.0.0.1:4000", "192.0.2.7:4000"

func TestAnswers(t *testing.T) {
	e := etcdtest.Start(t)
	h := newDaemon(t, e).Handler()
	put := func() {
		if _, err := e.Client(t).Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		method, path, peer string
		before             func()
		status             int
		body               string // contained in the answer
	}{
		{"GET", "/livez", elsewhere, nil, 200, "ok"},
		{"GET", "/healthz", elsewhere, nil, 200, "ok"},
		{"GET", "/snapshot/latest", elsewhere, nil, 404, `"code":"nothing_stored"`},
		{"GET", "/snapshots", elsewhere, nil, 200, `"snapshots":[]`},
		{"GET", "/snapshot/full", here, nil, 405, ""},
		{"POST", "/snapshot/full", elsewhere, nil, 403, `"code":"forbidden"`},
		{"POST", "/snapshot/full", "[::1]:4000", nil, 200, `"kind":"full"`},
		{"POST", "/snapshot/delta", here, nil, 204, ""},
		{"POST", "/snapshot/delta", here, put, 200, `"kind":"delta"`},
		{"GET", "/snapshot/latest", elsewhere, nil, 200, `"revision":2`},
		{"GET", "/snapshots", elsewhere, nil, 200, `"lastRevision":2`},
		{"GET", "/metrics", elsewhere, nil, 200, `etcd_ferry_snapshots_total{kind="delta",result="ok"} 1`},
		{"GET", "/nothing", elsewhere, nil, 404, ""},
		{"GET", "/healthz", elsewhere, func() { e.Pause(t) }, 503, `"code":"not_ready"`},
		{"GET", "/livez", elsewhere, nil, 200, "ok"},
		{"GET", "/healthz", elsewhere, func() { e.Resume(t) }, 200, "ok"},
	} {
		if step.before != nil {
			step.before()
		}
		status, body := call(h, step.method, step.path, step.peer)
		if status != step.status || !strings.Contains(body, step.body) {
			t.Errorf("%s %s from %s: %d %s, want %d %s", step.method, step.path, step.peer, status, body, step.status, step.body)
		}
	}
}

func TestRunServesAndBacksUpUntilItsContextEnds(t *testing.T) {
	e := etcdtest.Start(t)
	d := newDaemon(t, e)
	d.Listen = freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var latest server.Latest
	for latest.Full.Kind != snapshot.Full {
		latest = get[server.Latest](t, "http://"+d.Listen+"/snapshot/latest")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get returns a zero T while there is nobody to answer.
func get[T any](t *testing.T, url string) (v T) {
	t.Helper()
	r, err := http.Get(url) //nolint:gosec // a test
	if err != nil {
		return v
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTakenAddressIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDaemon(t, etcdtest.Start(t))
	d.Listen = l.Addr().String()
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("got %v", err)
	}
}
