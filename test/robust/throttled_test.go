package robust

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// busy is a server that has no time for anybody while status is set.
type busy struct {
	*httptest.Server
	status   atomic.Int64
	requests atomic.Int64
	refused  atomic.Pointer[func()] // called for each request that is
}

// newBusy returns one before a real server, which it forwards to otherwise.
func newBusy(t *testing.T, to string) *busy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	target.Path = ""
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	b := &busy{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		if status := int(b.status.Load()); status != 0 {
			if refused := b.refused.Load(); refused != nil {
				(*refused)()
			}
			w.Header().Set("Retry-After", "1") // second
			http.Error(w, "slow down", status)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// TestThrottledStoreIsLeftAlone storms with 429 and 503, and counts what arrives.
func TestThrottledStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	beside(t, fronts(t), func(t *testing.T, open func(*testing.T) (store.Store, *busy)) {
		for _, status := range []int64{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(strconv.FormatInt(status, 10), func(t *testing.T) {
				beside(t, calls, func(t *testing.T, c call) {
					s, b := open(t)
					c.refused(t, s, b, status)
				})
			})
		}
	})
}

// fronts open a store of each kind through a busy server of its own.
func fronts(t *testing.T) map[string]func(*testing.T) (store.Store, *busy) {
	t.Helper()
	onS3, onGCS, onAzure := storeservers.StartVersityGW(t), storeservers.StartGCS(t), storeservers.StartAzurite(t)
	bucket, s3Secret, azureSecret := onS3.Bucket(t), onS3.Credentials(t), onAzure.Credentials(t)
	onGCS.MakeBucket(t, bucket)
	onAzure.MakeContainer(t, bucket)
	return map[string]func(*testing.T) (store.Store, *busy){
		"s3": func(t *testing.T) (store.Store, *busy) {
			b := newBusy(t, onS3.URL)
			s, err := s3.New(s3.Config{Bucket: bucket, Endpoint: b.URL, PathStyle: true, CredentialsDir: s3Secret})
			return opened(t, s, err), b
		},
		"gcs": func(t *testing.T) (store.Store, *busy) {
			b := newBusy(t, onGCS.URL)
			s, err := gcs.New(gcs.Config{Bucket: bucket, Endpoint: b.URL})
			return opened(t, s, err), b
		},
		"azure": func(t *testing.T) (store.Store, *busy) {
			b := newBusy(t, onAzure.URL)
			s, err := azure.New(azure.Config{Container: bucket, Endpoint: b.URL + "/" + onAzure.Account, CredentialsDir: azureSecret})
			return opened(t, s, err), b
		},
	}
}

func opened(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call is one of a store, about the object name, which is at a version.
type call struct {
	make func(ctx context.Context, s store.Store, name string, old store.Version) error
	most int64 // requests in storm; 0: as many as the parts at once make, each of them once a second
}

const (
	throttledAttempts = 3
	// What cannot be begun again is repeated by the SDK for minutes; the caller
	// gives up so long after the first refusal.
	throttledPatience = 6 * time.Second
	throttledParts    = 4 // at once
)

var calls = map[string]call{
	"list": {func(ctx context.Context, s store.Store, _ string, _ store.Version) error {
		_, err := s.List(ctx, "")
		return err
	}, throttledAttempts},
	"open": {func(ctx context.Context, s store.Store, name string, _ store.Version) error {
		_, _, err := s.Open(ctx, name)
		return err
	}, throttledAttempts},
	"read": {func(ctx context.Context, s store.Store, name string, _ store.Version) error {
		_, _, err := s.Read(ctx, name)
		return err
	}, throttledAttempts},
	"remove": {func(ctx context.Context, s store.Store, name string, _ store.Version) error {
		return s.Remove(ctx, name)
	}, throttledAttempts},
	// These look what became of an attempt.
	"swap": {func(ctx context.Context, s store.Store, name string, old store.Version) error {
		_, err := s.Swap(ctx, name, old, []byte("x"))
		return err
	}, 4 * throttledAttempts},
	"create": {func(ctx context.Context, s store.Store, name string, _ store.Version) error {
		_, err := s.Create(ctx, name+"-other", strings.NewReader("x"))
		return err
	}, 4 * throttledAttempts},
	"create in parts": {func(ctx context.Context, s store.Store, name string, _ store.Version) error {
		_, err := s.Create(ctx, name+"-other", noise(40<<20))
		return err
	}, 0},
}

// refused makes the call in storm, and looks that it is over when it is over.
func (c call) refused(t *testing.T, s store.Store, b *busy, status int64) {
	t.Helper()
	name := strings.ToLower(rand.Text())
	old, err := s.Swap(t.Context(), name, "", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	r := store.Retry(s)
	r.Attempts = throttledAttempts
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	giveUp := sync.OnceFunc(func() { time.AfterFunc(throttledPatience, cancel) })
	b.refused.Store(&giveUp)
	b.status.Store(status)
	before, began := b.requests.Load(), time.Now()
	err = c.make(ctx, r, name, old)
	n, took := b.requests.Load()-before, time.Since(began)
	if err == nil || errors.Is(err, store.ErrChanged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		t.Errorf("it ended with %v", err)
	}
	most := cmp.Or(c.most, throttledParts*(int64(took/time.Second)+2))
	if n < 2 || n > most {
		t.Errorf("%d requests in %v, want 2 to %d", n, took, most)
	}
	if took < time.Second {
		t.Errorf("it came back after %v, the server had asked for a second", took)
	}
	b.status.Store(0)
	if _, err := r.Swap(t.Context(), name, old, []byte("new")); err != nil {
		t.Errorf("after the storm: %v", err)
	}
}
