package robust

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// meter counts the bytes that are sent to a server.
type meter struct {
	net.Listener
	sent *atomic.Int64
}

func (m meter) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	return metered{conn, m.sent}, err
}

type metered struct {
	net.Conn
	sent *atomic.Int64
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.sent.Add(int64(n))
	return n, err
}

// newMeter returns the URL of a server's front that counts what is sent to it.
func newMeter(t *testing.T, to string) (front string, sent *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}})
	sent = &atomic.Int64{}
	server.Listener = meter{server.Listener, sent}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, sent
}

// TestServersCopyBetweenThemselves copies a chain between two buckets of one
// server. The stored bytes come from it once, to be checked at the destination,
// and none are sent.
func TestServersCopyBetweenThemselves(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (from, to store.Store, sent *atomic.Int64){
		"s3": func(t *testing.T) (from, to store.Store, sent *atomic.Int64) {
			server := storeservers.StartVersityGW(t)
			cfg := s3.Config{PathStyle: true, CredentialsDir: server.Credentials(t)}
			cfg.Endpoint, sent = newMeter(t, server.URL)
			bucket := func() store.Store {
				cfg.Bucket = server.Bucket(t)
				s, err := s3.New(cfg)
				return opened(t, s, err)
			}
			return bucket(), bucket(), sent
		},
		"gcs": func(t *testing.T) (from, to store.Store, sent *atomic.Int64) {
			server := storeservers.StartGCS(t)
			var cfg gcs.Config
			cfg.Endpoint, sent = newMeter(t, server.URL)
			bucket := func(name string) store.Store {
				server.MakeBucket(t, name)
				cfg.Bucket = name
				s, err := gcs.New(cfg)
				return opened(t, s, err)
			}
			return bucket("from"), bucket("to"), sent
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, sent := open(t)
			want := chain(t, archive.New(from))
			var size int64
			for _, m := range want {
				size += m.StoredSize
			}
			c := copier.New(archive.New(store.Retry(from)), archive.New(store.Retry(to)))
			c.Log = slog.New(slog.DiscardHandler)
			before := sent.Load()
			plan, err := c.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Do(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if r.ByStores != len(want) {
				t.Errorf("the server copied %d of %d", r.ByStores, len(want))
			}
			if n := sent.Load() - before; n*100 > size {
				t.Errorf("%d bytes were sent for a copy of %d", n, size)
			}
			wantCopies(t, shore{direct: to, unfinished: func(*testing.T, string) int { return 0 }}, want)
		})
	}
}
