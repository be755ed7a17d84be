package robust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aws "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// The pieces that big objects are sent in: the smallest that S3 allows, so that
// small objects are big, and how many of them are sent at once.
const (
	piece    = 5 << 20
	parallel = 2
)

// servers are all that there are, behind one Toxiproxy.
type servers struct {
	toxi             *storeservers.Toxiproxy
	versitygw, minio *storeservers.S3
	gcs              *storeservers.GCS
	azurite          *storeservers.Azurite
	containers       atomic.Int64
}

func startServers(t *testing.T) *servers {
	t.Helper()
	return &servers{
		toxi:      storeservers.StartToxiproxy(t),
		versitygw: storeservers.StartVersityGW(t),
		minio:     storeservers.StartMinIO(t),
		gcs:       storeservers.StartGCS(t),
		azurite:   storeservers.StartAzurite(t),
	}
}

// shore is a new store, seen directly, and across a line.
type shore struct {
	direct, across store.Store
	line           *storeservers.Line
	// unfinished returns how many uploads to a name are neither whole nor
	// dropped, as far as the server tells.
	unfinished func(t *testing.T, name string) int
}

// providers make shores, by the name of the server.
func (s *servers) providers() map[string]func(*testing.T) shore {
	return map[string]func(*testing.T) shore{
		"versitygw":       func(t *testing.T) shore { return s.onS3(t, s.versitygw) },
		"minio":           func(t *testing.T) shore { return s.onS3(t, s.minio) },
		"fake-gcs-server": s.onGCS,
		"azurite":         s.onAzure,
	}
}

func (s *servers) onS3(t *testing.T, server *storeservers.S3) shore {
	t.Helper()
	cfg := s3.Config{
		Bucket: server.Bucket(t), Endpoint: server.URL, PathStyle: true, CAFile: server.CAFile,
		CredentialsDir: server.Credentials(t),
	}
	open := func() store.Store {
		opened, err := s3.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		opened.PartSize, opened.Parallel = piece, parallel
		opened.PartSize, opened.Parallel = piece, parallel
		return opened
	}
	sh := shore{direct: open(), line: s.toxi.Line(t, server.URL)}
	client := aws.New(aws.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: server.Region, HTTPClient: server.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKeyID, server.SecretAccessKey, ""),
	})
	sh.unfinished = func(t *testing.T, name string) int {
		out, err := client.ListMultipartUploads(t.Context(), &aws.ListMultipartUploadsInput{Bucket: &cfg.Bucket, Prefix: &name})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Uploads)
	}
	cfg.Endpoint = sh.line.URL
	sh.across = open()
	return sh
}

func (s *servers) onGCS(t *testing.T) shore {
	t.Helper()
	cfg := gcs.Config{Bucket: fmt.Sprint("bucket-", s.containers.Add(1)), Endpoint: s.gcs.URL}
	s.gcs.MakeBucket(t, cfg.Bucket)
	open := func() store.Store {
		opened, err := gcs.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		opened.PartSize = piece
		return opened
	}
	sh := shore{direct: open(), line: s.toxi.Line(t, s.gcs.URL)}
	sh.unfinished = func(*testing.T, string) int { return 0 } // no server tells
	cfg.Endpoint = sh.line.URL
	sh.across = open()
	return sh
}

func (s *servers) onAzure(t *testing.T) shore {
	t.Helper()
	cfg := azure.Config{
		Container: fmt.Sprint("container-", s.containers.Add(1)), Endpoint: s.azurite.Endpoint, CredentialsDir: s.azurite.Credentials(t),
	}
	s.azurite.MakeContainer(t, cfg.Container)
	open := func() store.Store {
		opened, err := azure.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		opened.PartSize, opened.Parallel = piece, parallel
		return opened
	}
	sh := shore{direct: open(), line: s.toxi.Line(t, s.azurite.Endpoint)}
	sh.unfinished = func(t *testing.T, name string) int { return s.uncommitted(t, cfg.Container, name) }
	cfg.Endpoint = sh.line.URL
	sh.across = open()
	return sh
}

// uncommitted counts blobs that consist of blocks only.
func (s *servers) uncommitted(t *testing.T, in, name string) (n int) {
	t.Helper()
	key, err := container.NewSharedKeyCredential(s.azurite.Account, s.azurite.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential(s.azurite.Endpoint+"/"+in, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs := client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &name, Include: container.ListBlobsInclude{UncommittedBlobs: true},
	})
	for blobs.More() {
		page, err := blobs.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Segment.BlobItems {
			if item.Properties.ETag == nil || *item.Properties.ETag == "" {
				n++
			}
		}
	}
	return n
}

// beside runs subtests all at once, however few processors there are: most of
// their time is waiting.
func beside[T any](t *testing.T, tests map[string]T, test func(*testing.T, T)) {
	t.Helper()
	var wg sync.WaitGroup
	for name, x := range tests {
		wg.Go(func() { t.Run(name, func(t *testing.T) { test(t, x) }) })
	}
	wg.Wait()
}

// noise returns bytes that do not repeat, from a source that only reads.
func noise(size int64) io.Reader {
	return struct{ io.Reader }{io.LimitReader(rand.NewChaCha8([32]byte{1}), size)}
}

// tripping calls trip before the byte at an offset is read, once.
type tripping struct {
	io.Reader
	left int64
	trip func()
}

func (r *tripping) Read(p []byte) (int, error) {
	if r.left <= 0 && r.trip != nil {
		r.trip()
		r.trip = nil
	}
	n, err := r.Reader.Read(p)
	r.left -= int64(n)
	return n, err
}

// wantNoise fails unless the object is noise of a size.
func wantNoise(t *testing.T, s store.Reader, name string, size int64) {
	t.Helper()
	body, info, err := s.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer body.Close()
	got, want := sha256.New(), sha256.New()
	if _, err := io.Copy(want, noise(size)); err != nil {
		t.Error(err)
	}
	n, err := io.Copy(got, body)
	if err != nil || n != size || info.Size != size || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes are listed and %d read, or others than were sent, %v", info.Size, n, err)
	}
}

// wantClear fails if an error does not say what was to be done, and where.
func wantClear(t *testing.T, err error, name string, s store.Store) {
	t.Helper()
	if text := err.Error(); !strings.Contains(text, name) || !strings.Contains(text, s.String()) || len(text) > 1000 {
		t.Errorf("the error is not clear: %v", err)
	}
}

// names returns what is listed.
func names(ctx context.Context, t *testing.T, s store.Reader) (all []string) {
	t.Helper()
	infos, err := s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		all = append(all, info.Name)
	}
	return all
}
