package rows

import (
	"crypto/md5" //nolint:gosec // S3 names states by it
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// TestRow18UnfitStores: a store that does not keep what a hand-over relies on is
// refused before anything begins.
func TestRow18UnfitStores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store *simpleStore
		says  []string
	}{
		"ignores conditions": {&simpleStore{}, []string{`step "create again"`}},
		"never overwrites":   {&simpleStore{worm: true}, []string{"WORM"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.store)
			t.Cleanup(s.Close)
			credentials := t.TempDir()
			write(t, filepath.Join(credentials, "accessKeyID"), []byte("id"))
			write(t, filepath.Join(credentials, "secretAccessKey"), []byte("secret"))
			in := container{url: "s3://bucket/prefix?pathStyle=true&endpoint=" + s.URL, credentials: credentials}
			begin(t, slices.Concat([]string{
				"server", "--owner-id=a", "--data-dir", filepath.Join(t.TempDir(), "etcd"), "--listen", freeAddress(t),
			}, in.flags("store"), calm.sidecar)...).want(1, append(c.says, "owner election is refused")...)
		})
	}
}

// simpleStore speaks as much of S3 as a probe needs, and ignores every condition
// but that of a first write.
type simpleStore struct {
	worm bool

	mu      sync.Mutex
	objects map[string]string
	writes  int
}

func (s *simpleStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, there := s.objects[r.URL.Path]
	switch r.Method {
	case http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		s.put(w, r, string(body), there)
	case http.MethodDelete:
		delete(s.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	default:
		if !there {
			failS3(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", etag(content))
		http.ServeContent(w, r, "", s3Time, strings.NewReader(content[strings.IndexByte(content, '|')+1:]))
	}
}

func (s *simpleStore) put(w http.ResponseWriter, r *http.Request, body string, there bool) {
	switch {
	case s.worm && there && r.Header.Get("If-None-Match") != "":
		failS3(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case s.worm && there:
		failS3(w, http.StatusForbidden, "AccessDenied")
	default:
		if s.objects == nil {
			s.objects = map[string]string{}
		}
		s.writes++
		content := fmt.Sprint(s.writes, "|", body)
		s.objects[r.URL.Path] = content
		w.Header().Set("ETag", etag(content))
	}
}

var s3Time = time.Unix(1_700_000_000, 0)

func etag(content string) string { return fmt.Sprintf(`"%x"`, md5.Sum([]byte(content))) } //nolint:gosec // it is what S3 has

func failS3(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>of the test</Message></Error>`, code)
}

// trouble is what a store answers instead of the sync object.
var trouble = map[string]http.HandlerFunc{
	"denied":    func(w http.ResponseWriter, _ *http.Request) { failS3(w, http.StatusForbidden, "AccessDenied") },
	"no bucket": func(w http.ResponseWriter, _ *http.Request) { failS3(w, http.StatusNotFound, "NoSuchBucket") },
	"a page":    answer("<html>welcome</html>"),
	"a 404 page": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<html>not here</html>")
	},
	"truncated":  answer(`{"status":"Initial","generation":`),
	"nothing":    answer(""),
	"too much":   answer(`{"status":"Done"` + strings.Repeat(" ", 64<<10) + `}`),
	"throttling": func(w http.ResponseWriter, _ *http.Request) { failS3(w, http.StatusServiceUnavailable, "SlowDown") },
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", etag(body))
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		fmt.Fprint(w, body)
	}
}

// troubled is the front of a server, which answers reads of the sync object in
// another way while it is told to.
type troubled struct {
	http.Handler
	instead atomic.Pointer[http.HandlerFunc]
}

func newTroubled(t *testing.T, to string) (front *troubled, address string) {
	t.Helper()
	front = &troubled{Handler: forward(t, to)}
	s := httptest.NewServer(front)
	t.Cleanup(s.Close)
	return front, s.URL
}

// forward passes requests on to a server.
func forward(t *testing.T, to string) http.Handler {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
}

func (f *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	instead := f.instead.Load()
	if instead != nil && strings.HasSuffix(r.URL.Path, "/"+syncobject.ObjectName) {
		(*instead)(w, r)
		return
	}
	f.Handler.ServeHTTP(w, r)
}

// TestRow27NeverAbsent: whatever a store answers, only a proven absence is one.
func TestRow27NeverAbsent(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	front, address := newTroubled(t, net.server.URL)
	a := deploy(t, "a", net.bucket(t).at(address), hastily).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 300)
	for name, instead := range trouble {
		front.instead.Store(&instead)
		errors := m.metric(t, readErrors)
		a.until(server.SelfFenced)
		eventually(t, "reads fail: "+name, func() bool { return m.metric(t, readErrors) >= errors+3 })
		if _, p := m.progress(t, ""); p.Role != server.SelfFenced || p.LastError == "" || p.LeaseRemaining > 0 {
			t.Errorf("%s: %+v", name, p)
		}
		t.Log(name, lastError(t, m))
	}
	a.wantDown()
	unknown := answer(`{"status":"Paused","schemaVersion":1}`)
	front.instead.Store(&unknown)
	a.until(server.Ceded)
	newer := answer(`{"status":"Initial","schemaVersion":1000}`)
	front.instead.Store(&newer)
	eventually(t, "the newer version is seen", func() bool { return strings.Contains(lastError(t, m), "1000") })
	a.until(server.Ceded)
	a.wantDown()
	front.instead.Store(nil)
	a.ready()
	onA.more(t, 100)
	onA.stop()
	onA.wantKept(t, a)
}

func lastError(t *testing.T, m *member) string {
	t.Helper()
	_, p := m.progress(t, "")
	return p.LastError
}
