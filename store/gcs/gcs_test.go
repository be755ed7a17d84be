package gcs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const chunkSize = 1 << 20

var buckets atomic.Int64

// config returns how to get at a new bucket.
func config(t *testing.T, server *storeservers.GCS) gcs.Config {
	t.Helper()
	bucket := fmt.Sprint("bucket-", buckets.Add(1))
	server.MakeBucket(t, bucket)
	return gcs.Config{Bucket: bucket, Endpoint: server.URL}
}

func open(t *testing.T, cfg gcs.Config) *gcs.Store {
	t.Helper()
	s, err := gcs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.PartSize = chunkSize
	return s
}

func TestStore(t *testing.T) {
	server := storeservers.StartGCS(t)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, config(t, server)) })
}

func TestResume(t *testing.T) {
	server := storeservers.StartGCS(t)
	cfg := config(t, server)
	storetest.RunResume(t, server.URL, func(url string) store.Store {
		cfg.Endpoint = url
		return open(t, cfg)
	})
}

func TestCopies(t *testing.T) {
	server := storeservers.StartGCS(t)
	storetest.RunCopies(t, false, func(t *testing.T) (dst, src store.Store) {
		return open(t, config(t, server)), open(t, config(t, server))
	})
}

func TestNoCopyFromElsewhere(t *testing.T) {
	cfg := config(t, storeservers.StartGCS(t))
	to := open(t, cfg)
	cfg.CredentialsDir = t.TempDir()
	for _, from := range []store.Store{mem.New(), open(t, cfg)} {
		if _, done, err := store.Copy(t.Context(), to, "x", from, "y"); done || err != nil {
			t.Errorf("from %s: %t, %v", from, done, err)
		}
	}
}

// To Google 0 means any.
func TestVersionZero(t *testing.T) {
	s := open(t, config(t, storeservers.StartGCS(t)))
	if _, err := s.Swap(t.Context(), "a", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenAt(t.Context(), "a", 4, "0"); !errors.Is(err, store.ErrChanged) {
		t.Errorf("open at version 0: %v", err)
	}
	if _, err := s.Swap(t.Context(), "a", "0", nil); !errors.Is(err, store.ErrChanged) {
		t.Errorf("swap of version 0: %v", err)
	}
}

func TestNoBucket(t *testing.T) {
	cfg := gcs.Config{Bucket: "no-such-bucket", Endpoint: storeservers.StartGCS(t).URL}
	for op, err := range storetest.Everything(t, open(t, cfg), 2*chunkSize) {
		if !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// A create that succeeded is not told that its name is taken, by itself.
func TestCreateWhoseAnswerIsLost(t *testing.T) {
	server := storeservers.StartGCS(t)
	cfg := config(t, server)
	for name, size := range map[string]int{"in one request": 10, "in chunks": 3*chunkSize + 1} {
		t.Run(name, func(t *testing.T) {
			var lost atomic.Bool
			through := cfg
			through.Endpoint = storetest.Proxy(t, server.URL, func(r *http.Request, forward func() *http.Response) *http.Response {
				last := !strings.HasSuffix(r.Header.Get("Content-Range"), "/*") && r.URL.Query().Get("uploadType") != ""
				response := forward()
				if last && !lost.Swap(true) {
					response.Body.Close()
					return storetest.Answer(r, http.StatusServiceUnavailable, nil)
				}
				return response
			})
			retried := store.Retry(open(t, through))
			retried.Base = 1
			object := strings.ReplaceAll(name, " ", "-")
			info, err := retried.Create(t.Context(), object, bytes.NewReader(make([]byte, size)))
			if err != nil || !lost.Load() {
				t.Fatalf("create: %v, lost an answer: %t", err, lost.Load())
			}
			infos, err := open(t, cfg).List(t.Context(), object)
			if err != nil || len(infos) != 1 || infos[0].Version != info.Version || info.Size != int64(size) {
				t.Errorf("there is %v, %v, want %v", infos, err, info)
			}
		})
	}
}

// The last chunk is sent again if its answer is lost. By then the name is taken,
// by this create.
func TestLastChunkIsSentAgain(t *testing.T) {
	server := storeservers.StartGCS(t)
	cfg := config(t, server)
	through, sent := cfg, 0
	through.Endpoint = storetest.Proxy(t, server.URL, func(r *http.Request, forward func() *http.Response) *http.Response {
		if chunk := r.Header.Get("Content-Range"); chunk == "" || strings.HasSuffix(chunk, "/*") {
			return forward()
		}
		sent++
		if sent == 1 {
			forward().Body.Close()
			return storetest.Answer(r, http.StatusServiceUnavailable, nil)
		}
		return storetest.Answer(r, http.StatusPreconditionFailed, nil)
	})
	const size = 3*chunkSize + 1
	upload := func() (store.Info, error) {
		return open(t, through).Create(t.Context(), "a", io.LimitReader(rand.NewChaCha8([32]byte{}), size))
	}
	if info, err := upload(); err != nil || info.Size != size || sent != 2 {
		t.Errorf("create: %v, %v, the last chunk was sent %d times", info, err, sent)
	}
	if _, err := upload(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another create: %v", err)
	}
}

// The URL of an upload is all that one needs to take part in it.
func TestNoURLInErrors(t *testing.T) {
	for op, err := range storetest.Everything(t, open(t, gcs.Config{Bucket: "b", Endpoint: "http://127.0.0.1:1"}), 0) {
		if err == nil || strings.Contains(err.Error(), "://127") || store.IsPermanent(err) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// reason is the body of an answer of Google's.
func reason(status int, reason string) string {
	return fmt.Sprintf(`{"error": {"code": %d, "message": "they said so", "errors": [{"reason": %q}]}}`, status, reason)
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		header http.Header
		body   string
		class  error // nil if it proves nothing
		text   string
	}{
		{"unauthorized", 401, nil, reason(401, "required"), fs.ErrPermission, "roles/storage.objectAdmin"},
		{"forbidden", 403, nil, reason(403, "forbidden"), fs.ErrPermission, "roles/storage.objectAdmin"},
		{"retention policy", 403, nil, reason(403, "retentionPolicyNotMet"), fs.ErrPermission, "retention policy"},
		{"hold", 403, nil, reason(403, "objectUnderActiveHold"), fs.ErrPermission, "hold"},
		{"daily limit", 403, nil, reason(403, "rateLimitExceeded"), nil, "they said so"},
		{"too many", 429, http.Header{"Retry-After": {"7"}}, reason(429, "rateLimitExceeded"), nil, "they said so"},
		{"unavailable", 503, nil, reason(503, "backendError"), nil, "503"},
		{"page of a proxy", 502, nil, "<html>\n" + strings.Repeat("bad gateway ", 1000), nil, "502 Bad Gateway: <html> bad"},
		{"another kind of server", 200, nil, "<html>welcome</html>", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, gcs.Config{Bucket: "b", Endpoint: storetest.Answering(t, test.status, test.header, test.body)})
			_, listErr := s.List(t.Context(), "")
			_, swapErr := s.Swap(t.Context(), "a", "1", []byte("x"))
			_, createErr := s.Create(t.Context(), "a", strings.NewReader("x"))
			for _, err := range []error{listErr, swapErr, createErr} {
				if err == nil || store.IsPermanent(err) != (test.class != nil) || !errors.Is(err, test.class) && test.class != nil {
					t.Errorf("error is %v, want one that is %v", err, test.class)
				} else if !strings.Contains(err.Error(), test.text) || len(err.Error()) > 500 {
					t.Errorf("error is %q, want %q in it", err, test.text)
				}
			}
		})
	}
}

// That an object is missing is not believed where the bucket cannot be listed.
func TestAbsenceIsProven(t *testing.T) {
	server := storeservers.StartGCS(t)
	cfg := config(t, server)
	cfg.Endpoint = storetest.Proxy(t, server.URL, func(r *http.Request, forward func() *http.Response) *http.Response {
		response := forward()
		if strings.HasSuffix(r.URL.Path, "/o") { // a listing
			response.Body.Close()
			return storetest.Answer(r, http.StatusForbidden, nil)
		}
		return response
	})
	s := open(t, cfg)
	_, _, openErr := s.Open(t.Context(), "a")
	_, _, readErr := s.Read(t.Context(), "a")
	for _, err := range []error{openErr, readErr, s.Remove(t.Context(), "a")} {
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error is %v, want fs.ErrPermission", err)
		}
	}
}

// Create holds a chunk, not the object.
func TestMemory(t *testing.T) {
	const size = 256 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch {
		case r.Header.Get("Content-Range") == "":
			w.Header().Set("Location", "http://"+r.Host+"/upload/1")
		case strings.HasSuffix(r.Header.Get("Content-Range"), "/*"):
			w.Header().Set("X-Http-Status-Code-Override", "308")
			w.Header().Set("Range", "bytes=0-"+strings.TrimSuffix(strings.Split(r.Header.Get("Content-Range"), "-")[1], "/*"))
		default:
			fmt.Fprintf(w, `{"name": "a", "size": "%d", "generation": "1"}`, size)
		}
	}))
	defer server.Close()
	s := open(t, gcs.Config{Bucket: "b", Endpoint: server.URL})
	s.PartSize = 8 << 20
	most, before := uint64(0), live()
	src := &watched{Reader: io.LimitReader(rand.NewChaCha8([32]byte{}), size), every: 32 << 20, do: func() { most = max(most, live()) }}
	if _, err := s.Create(t.Context(), "a", src); err != nil {
		t.Fatal(err)
	}
	if used := most - min(most, before); used > 3*uint64(s.PartSize) {
		t.Errorf("%d MiB of memory are used", used>>20)
	}
}

// live returns how many bytes of memory are in use.
func live() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// watched calls do every so many bytes.
type watched struct {
	io.Reader
	every, read, next int
	do                func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.read += n; w.read >= w.next {
		w.next += w.every
		w.do()
	}
	return n, err
}
