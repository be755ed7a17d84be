package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// TestServers runs what has to hold on every server.
func TestServers(t *testing.T) {
	tests := map[string]func(t *testing.T, server *storeservers.S3){
		"store":               testStore,
		"no bucket":           testNoBucket,
		"open at":             testOpenAt,
		"create in parts":     testCreateInParts,
		"fail in parts":       testCreateFailsInParts,
		"race in parts":       testCreateRaceInParts,
		"changed credentials": testCredentialsAreReadAgain,
	}
	onServers(t, func(t *testing.T, server *storeservers.S3) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test(t, server) })
		}
	})
}

// onServers runs a test against each of the servers.
func onServers(t *testing.T, test func(t *testing.T, server *storeservers.S3)) {
	for name, start := range map[string]func(testing.TB) *storeservers.S3{
		"versitygw": storeservers.StartVersityGW,
		"minio":     storeservers.StartMinIO,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// config returns how to get at a new bucket.
func config(t *testing.T, server *storeservers.S3) s3.Config {
	t.Helper()
	return s3.Config{
		Bucket: server.Bucket(t), Endpoint: server.URL, PathStyle: true,
		CAFile: server.CAFile, CredentialsDir: server.Credentials(t),
		PartSize: partSize,
	}
}

func open(t *testing.T, cfg s3.Config) *s3.Store {
	t.Helper()
	s, err := s3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client returns the SDK's client.
func client(t *testing.T, s *s3.Store) *aws.Client {
	t.Helper()
	c, err := s.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, s store.Store, name, content string) store.Info {
	t.Helper()
	info, err := s.Create(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func testStore(t *testing.T, server *storeservers.S3) {
	storetest.Run(t, func(t *testing.T) store.Store { return &orderly{Store: open(t, config(t, server))} })
}

// orderly is a store that does not remove during a swap. In versitygw an object
// can be removed between the comparison and the writing of a swap, which then
// brings it back.
type orderly struct {
	store.Store
	mu sync.RWMutex
}

func (o *orderly) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.Store.Swap(ctx, name, old, data)
}

func (o *orderly) Remove(ctx context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Store.Remove(ctx, name)
}

// A listing comes in pages of 1000.
func TestListPages(t *testing.T) {
	s := open(t, config(t, storeservers.StartVersityGW(t)))
	const objects = 1005
	var g errgroup.Group
	g.SetLimit(8)
	for i := range objects {
		g.Go(func() error {
			_, err := s.Swap(t.Context(), fmt.Sprintf("dir/%04d", i), "", []byte("x"))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	infos, err := s.List(t.Context(), "dir/")
	if err != nil || len(infos) != objects || infos[objects-1].Name != "dir/1004" {
		t.Errorf("%d objects are listed, %v", len(infos), err)
	}
}

func testNoBucket(t *testing.T, server *storeservers.S3) {
	cfg := config(t, server)
	cfg.Bucket = "no-such-bucket"
	errs := everything(t, open(t, cfg))
	_, errs["create in parts"] = open(t, cfg).Create(t.Context(), "a", stream(partSize+1))
	for op, err := range errs {
		if !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// everything makes every call on a store, and returns how they ended. Nothing is
// repeated in them.
func everything(t *testing.T, s store.Store) map[string]error {
	t.Helper()
	errs := map[string]error{}
	_, errs["list"] = s.List(t.Context(), "")
	_, _, errs["open"] = s.Open(t.Context(), "a")
	_, _, errs["read"] = s.Read(t.Context(), "a")
	_, errs["create"] = s.Create(t.Context(), "a", strings.NewReader("x"))
	_, errs["first swap"] = s.Swap(t.Context(), "a", "", []byte("x"))
	_, errs["swap"] = s.Swap(t.Context(), "a", "1", []byte("x"))
	errs["remove"] = s.Remove(t.Context(), "a")
	return errs
}

func testOpenAt(t *testing.T, server *storeservers.S3) {
	s := open(t, config(t, server))
	version := create(t, s, "a", "0123456789").Version
	body, err := s.OpenAt(t.Context(), "a", 4, version)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if rest, err := io.ReadAll(body); string(rest) != "456789" || err != nil {
		t.Errorf("from byte 4 on it reads %q, %v", rest, err)
	}
	if _, err := s.OpenAt(t.Context(), "a", 4, "other"); !errors.Is(err, store.ErrChanged) {
		t.Errorf("another version: %v", err)
	}
	if _, err := s.OpenAt(t.Context(), "b", 4, version); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// What breaks off is read on, not from the start.
func TestResume(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	content := strings.Repeat("0123456789", 100_000)
	create(t, open(t, cfg), "a", content)

	var ranges []string
	cfg.Endpoint = proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
		response := forward()
		if r.Method == http.MethodGet {
			ranges = append(ranges, r.Header.Get("Range"))
			response.Body = io.NopCloser(io.LimitReader(response.Body, 400_000))
		}
		return response
	})
	retried := store.Retry(store.Prefix(open(t, cfg), ""))
	retried.Base = 1
	body, _, err := retried.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); string(got) != content || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if len(ranges) != 3 || ranges[0] != "" || ranges[1] == "" || ranges[1] == ranges[2] {
		t.Errorf("it asked for the ranges %q", ranges)
	}
}
