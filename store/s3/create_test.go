package s3_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// partSize is the smallest that S3 allows.
const partSize = 5 << 20

var errSource = errors.New("source failed on purpose")

// stream returns size bytes that do not repeat, from a source that only reads.
func stream(size int64) io.Reader {
	return struct{ io.Reader }{io.LimitReader(rand.NewChaCha8([32]byte{1}), size)}
}

// uploads returns how many uploads of an object are unfinished.
func uploads(t *testing.T, s *s3.Store, bucket, name string) int {
	t.Helper()
	out, err := client(t, s).ListMultipartUploads(t.Context(), &aws.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &name})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

func wantStream(t *testing.T, s store.Store, name string, size int64) {
	t.Helper()
	body, info, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	got, want := sha256.New(), sha256.New()
	io.Copy(want, stream(size))
	if _, err := io.Copy(got, body); err != nil || info.Size != size || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes that differ, or %v", info.Size, err)
	}
}

func testCreateInParts(t *testing.T, server *storeservers.S3) {
	cfg := config(t, server)
	s := open(t, cfg)
	for i, size := range []int64{partSize - 1, partSize, partSize + 1, 4 * partSize, 4*partSize + 1} {
		name := fmt.Sprint("size", i)
		info, err := s.Create(t.Context(), name, stream(size))
		if err != nil || info.Size != size {
			t.Fatalf("%d bytes: %+v, %v", size, info, err)
		}
		wantStream(t, s, name, size)
		if n := uploads(t, s, cfg.Bucket, name); n != 0 {
			t.Errorf("%d bytes: %d unfinished uploads are left", size, n)
		}
	}
}

func testCreateFailsInParts(t *testing.T, server *storeservers.S3) {
	cfg := config(t, server)
	s := open(t, cfg)
	for name, broken := range map[string]error{"on purpose": errSource, "short": io.ErrUnexpectedEOF} {
		for _, size := range []int64{100, partSize, 3*partSize + 100, 4 * partSize} {
			_, err := s.Create(t.Context(), "a", io.MultiReader(stream(size), iotest.ErrReader(broken)))
			if !errors.Is(err, broken) {
				t.Errorf("%s after %d bytes: %v", name, size, err)
			}
		}
	}
	if n := uploads(t, s, cfg.Bucket, "a"); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
	if infos, err := s.List(t.Context(), ""); len(infos) > 0 || err != nil {
		t.Errorf("listed are %v, %v", infos, err)
	}
}

func testCreateRaceInParts(t *testing.T, server *storeservers.S3) {
	cfg := config(t, server)
	s := open(t, cfg)
	var wg sync.WaitGroup
	var won, lost atomic.Int32
	for range 4 {
		wg.Go(func() {
			// Retried, since 409 is an answer to a race that proves nothing.
			_, err := store.Retry(s).Create(t.Context(), "a", bytes.NewReader(make([]byte, partSize+rand.IntN(9))))
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, fs.ErrExist):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 3 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if n := uploads(t, s, cfg.Bucket, "a"); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
}

// A taken name is found out before the source has been read.
func TestCreateTakenReadsLittle(t *testing.T) {
	s := open(t, config(t, storeservers.StartVersityGW(t)))
	create(t, s, "a", "there")
	rest := &counter{r: stream(1 << 40)}
	if _, err := s.Create(t.Context(), "a", rest); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if rest.n.Load() > 2*partSize {
		t.Errorf("it read %d bytes", rest.n.Load())
	}
}

type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A failed part does not cost the upload, nor does a completion whose answer is
// lost; and one's own object is told from another's.
func TestCreateOverBadLine(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	isPart := func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("partNumber") }
	isCompletion := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }
	for name, test := range map[string]struct {
		concerns func(*http.Request) bool
		happens  bool
		foreign  bool // somebody else takes the name
		want     error
	}{
		"part lost":              {isPart, false, false, nil},
		"part's answer lost":     {isPart, true, false, nil},
		"completion lost":        {isCompletion, false, false, nil},
		"completion's answer":    {isCompletion, true, false, nil},
		"completion, name taken": {isCompletion, false, true, fs.ErrExist},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, server)
			direct := open(t, cfg)
			var failed atomic.Int32
			cfg.Endpoint = storetest.Proxy(t, server.URL, func(r *http.Request, forward func() *http.Response) *http.Response {
				if !test.concerns(r) || failed.Add(1) > 1 {
					return forward()
				}
				if test.happens {
					forward().Body.Close()
				}
				if test.foreign {
					create(t, direct, "a", "foreign")
				}
				return nil
			})
			s := open(t, cfg)
			_, err := s.Create(t.Context(), "a", stream(3*partSize))
			if !errors.Is(err, test.want) {
				t.Fatalf("error is %v, want %v", err, test.want)
			}
			if failed.Load() == 0 {
				t.Error("nothing failed")
			}
			if test.want == nil {
				wantStream(t, s, "a", 3*partSize)
			}
			if n := uploads(t, s, cfg.Bucket, "a"); n != 0 {
				t.Errorf("%d unfinished uploads are left", n)
			}
		})
	}
}

func TestSweep(t *testing.T) {
	cfg := config(t, storeservers.StartVersityGW(t))
	s := open(t, cfg)
	for _, name := range []string{"dir/left", "else/left"} {
		_, err := client(t, s).CreateMultipartUpload(t.Context(), &aws.CreateMultipartUploadInput{Bucket: &cfg.Bucket, Key: &name})
		if err != nil {
			t.Fatal(err)
		}
	}
	left := func(s *s3.Store, name string) (dir, other int) {
		if _, err := s.Create(t.Context(), name, stream(partSize+1)); err != nil {
			t.Fatal(err)
		}
		return uploads(t, s, cfg.Bucket, "dir/"), uploads(t, s, cfg.Bucket, "else/")
	}
	if dir, other := left(s, "dir/a"); dir != 1 || other != 1 {
		t.Errorf("%d and %d young uploads are left, want all", dir, other)
	}
	cfg.UploadAge = time.Nanosecond
	if dir, other := left(open(t, cfg), "dir/b"); dir != 0 || other != 1 {
		t.Errorf("%d old uploads are left, and %d in another folder; want 0 and 1", dir, other)
	}
}

// However big an object is, some parts of it are in memory.
func TestCreateMemory(t *testing.T) {
	cfg := config(t, storeservers.StartVersityGW(t))
	s := open(t, cfg)
	s.PartSize = cloud.DefaultPartSize
	create(t, s, "warm", strings.Repeat("x", 1000))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	src := &sampled{r: stream(200 << 20)}
	if _, err := s.Create(t.Context(), "big", src); err != nil {
		t.Fatal(err)
	}
	const parts = cloud.DefaultParallel * cloud.DefaultPartSize
	// As much again may be garbage.
	if grown := int64(src.peak) - int64(before.HeapAlloc); grown > 2*parts+(8<<20) {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// sampled notes how big the heap becomes while it is read.
type sampled struct {
	r    io.Reader
	read int
	peak uint64
}

func (s *sampled) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.read += n; s.read > 4<<20 {
		s.read = 0
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		s.peak = max(s.peak, now.HeapAlloc)
	}
	return n, err
}
