package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// TestServers runs what has to hold on every server.
func TestServers(t *testing.T) {
	tests := map[string]func(t *testing.T, server *storeservers.S3){
		"store":               testStore,
		"no bucket":           testNoBucket,
		"copies":              testCopies,
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
	}
}

func open(t *testing.T, cfg s3.Config) *s3.Store {
	t.Helper()
	s, err := s3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.PartSize = partSize
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

func (o *orderly) Unwrap() store.Store { return o.Store }

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
	for op, err := range storetest.Everything(t, open(t, cfg), partSize+1) {
		if !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestResume(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	storetest.RunResume(t, server.URL, func(url string) store.Store {
		cfg.Endpoint = url
		return open(t, cfg)
	})
}

func testCopies(t *testing.T, server *storeservers.S3) {
	storetest.RunCopies(t, true, func(t *testing.T) (dst, src store.Store) {
		cfg := config(t, server)
		src = open(t, cfg)
		cfg.Bucket = server.Bucket(t)
		return open(t, cfg), src
	})
}

func TestNoCopyFromElsewhere(t *testing.T) {
	cfg := config(t, storeservers.StartVersityGW(t))
	to := open(t, cfg)
	cfg.Region = "elsewhere"
	for _, from := range []store.Store{mem.New(), open(t, cfg)} {
		if _, done, err := store.Copy(t.Context(), to, "x", from, "y"); done || err != nil {
			t.Errorf("from %s: %t, %v", from, done, err)
		}
	}
}
