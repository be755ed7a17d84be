package azure_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const blockSize = 1 << 20

var containers atomic.Int64

// config returns how to get at a new container.
func config(t *testing.T, server *storeservers.Azurite) azure.Config {
	t.Helper()
	container := fmt.Sprint("container-", containers.Add(1))
	server.MakeContainer(t, container)
	return azure.Config{Container: container, Endpoint: server.Endpoint, CredentialsDir: server.Credentials(t)}
}

func open(t *testing.T, cfg azure.Config) *azure.Store {
	t.Helper()
	s, err := azure.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.PartSize = blockSize
	return s
}

func create(t *testing.T, s store.Store, name, content string) store.Info {
	t.Helper()
	info, err := s.Create(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// One server for all, since it takes long to start.
func TestOnAzurite(t *testing.T) {
	server := storeservers.StartAzurite(t)
	for name, test := range map[string]func(*testing.T, *storeservers.Azurite){
		"store":                         testStore,
		"no container":                  testNoContainer,
		"copies":                        testCopies,
		"copies that take long":         testCopiesThatTakeLong,
		"copies that are not allowed":   testCopiesThatAreNotAllowed,
		"no copy from elsewhere":        testNoCopyFromElsewhere,
		"resume":                        testResume,
		"create whose answer is lost":   testCreateWhoseAnswerIsLost,
		"swap whose answer is lost":     testSwapWhoseAnswerIsLost,
		"race in blocks":                testRaceInBlocks,
		"blocks that are gone":          testBlocksThatAreGone,
		"credentials":                   testCredentials,
		"key is replaced":               testKeyIsReplaced,
		"mounted secret is read as one": testMountedSecretIsReadAsOne,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func testStore(t *testing.T, server *storeservers.Azurite) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, config(t, server)) })
}

// proxy returns the endpoint of a proxy before a server.
func proxy(t *testing.T, server *storeservers.Azurite, meddle storetest.Meddler) string {
	t.Helper()
	return storetest.Proxy(t, server.URL, meddle) + "/" + server.Account
}

// header returns the only line of a header.
func header(line string) http.Header {
	key, value, _ := strings.Cut(line, ": ")
	return http.Header{http.CanonicalHeaderKey(key): {value}}
}

func testResume(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	storetest.RunResume(t, server.URL, func(url string) store.Store {
		cfg.Endpoint = url + "/" + server.Account
		return open(t, cfg)
	})
}

func testNoContainer(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	cfg.Container = "no-such-container"
	for op, err := range storetest.Everything(t, open(t, cfg), 2*blockSize) {
		if !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// loseOne returns a proxy that forwards the first request that matches, and
// answers that the server is not available.
func loseOne(t *testing.T, server *storeservers.Azurite, match func(*http.Request) bool) (endpoint string, lost *atomic.Bool) {
	t.Helper()
	lost = new(atomic.Bool)
	return proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
		response := forward()
		if match(r) && !lost.Swap(true) {
			response.Body.Close()
			return storetest.Answer(r, http.StatusServiceUnavailable, nil)
		}
		return response
	}), lost
}

// A create that succeeded is not told that its name is taken, by itself.
func testCreateWhoseAnswerIsLost(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	tests := map[string]struct {
		size  int
		query string // of the request whose answer is lost
	}{
		"put":    {10, ""},
		"block":  {3*blockSize + 1, "block"},
		"commit": {3*blockSize + 1, "blocklist"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			through := cfg
			var lost *atomic.Bool
			through.Endpoint, lost = loseOne(t, server, func(r *http.Request) bool {
				return r.Method == http.MethodPut && r.URL.Query().Get("comp") == test.query
			})
			src := io.LimitReader(rand.NewChaCha8([32]byte{}), int64(test.size)) // cannot be repeated
			info, err := open(t, through).Create(t.Context(), name, src)
			if err != nil || !lost.Load() {
				t.Fatalf("create: %v, lost an answer: %t", err, lost.Load())
			}
			infos, err := open(t, cfg).List(t.Context(), name)
			if err != nil || len(infos) != 1 || infos[0].Version != info.Version || info.Size != int64(test.size) {
				t.Errorf("there is %v, %v, want %v", infos, err, info)
			}
		})
	}
}

// A swap is not repeated here: store.Retry finds out what became of it.
func testSwapWhoseAnswerIsLost(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	var lost *atomic.Bool
	cfg.Endpoint, lost = loseOne(t, server, func(r *http.Request) bool { return r.Method == http.MethodPut })
	retried := store.Retry(open(t, cfg))
	retried.Base = 1
	if version, err := retried.Swap(t.Context(), "a", "", []byte("x")); err != nil || version == "" || !lost.Load() {
		t.Errorf("swap: %q, %v, lost an answer: %t", version, err, lost.Load())
	}
}

// Whoever commits first removes the blocks of the others. That blocks are gone
// proves nothing else.
func testBlocksThatAreGone(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	for name, taken := range map[string]bool{"taken": true, "free": false} {
		through := cfg
		through.Endpoint = proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
			if r.URL.Query().Get("comp") != "blocklist" {
				return forward()
			}
			if taken { // by this very create
				forward().Body.Close()
			}
			return storetest.Answer(r, http.StatusBadRequest, http.Header{"X-Ms-Error-Code": {"InvalidBlockList"}})
		})
		_, err := open(t, through).Create(t.Context(), name, bytes.NewReader(make([]byte, 2*blockSize)))
		if taken != (err == nil) || errors.Is(err, fs.ErrExist) || err != nil && store.IsPermanent(err) {
			t.Errorf("create of a name that is %s: %v", name, err)
		}
	}
}

// Of writers in blocks, too, one wins, and the others know.
func testRaceInBlocks(t *testing.T, server *storeservers.Azurite) {
	s := open(t, config(t, server))
	const writers = 4
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 2*blockSize+i) }
	var errs [writers]error
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { _, errs[i] = s.Create(t.Context(), "a", bytes.NewReader(content(i))) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if won < 0 {
		t.Fatal("nobody won")
	}
	body, _, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, content(won)) {
		t.Errorf("there are %d bytes, %v, not those of writer %d", len(got), err, won)
	}
}

func TestAnswers(t *testing.T) {
	const code = "X-Ms-Error-Code: "
	tests := []struct {
		status int
		header string
		class  error // nil if it proves nothing
		text   string
	}{
		{401, code + "NoAuthenticationInformation", fs.ErrPermission, "Storage Blob Data Contributor"},
		{403, code + "AuthenticationFailed", fs.ErrPermission, "AuthenticationFailed"},
		{403, code + "AuthorizationFailure", fs.ErrPermission, "firewall"},
		{403, code + "AuthorizationPermissionMismatch", fs.ErrPermission, "AuthorizationPermissionMismatch"},
		{403, code + "UnauthorizedBlobOverwrite", fs.ErrPermission, "UnauthorizedBlobOverwrite"},
		{409, code + "BlobImmutableDueToPolicy", fs.ErrPermission, "immutability policy"},
		{404, code + "ContainerNotFound", store.ErrNoContainer, "container"},
		{404, "", nil, "404"}, // a proxy's
		{409, code + "ContainerBeingDeleted", nil, "ContainerBeingDeleted"},
		{412, code + "LeaseIdMissing", nil, "LeaseIdMissing"},
		{501, "Retry-After: 7", nil, "501"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.status, test.header), func(t *testing.T) {
			cfg := azure.Config{Container: "c", CredentialsDir: credentials(t, "storageAccount", "a", "storageKey", "a2V5")}
			cfg.Endpoint = storetest.Answering(t, test.status, header(test.header), strings.Repeat("<html>no</html>\n", 1000))
			s := open(t, cfg)
			_, listErr := s.List(t.Context(), "")
			_, _, openErr := s.Open(t.Context(), "a")
			_, swapErr := s.Swap(t.Context(), "a", "1", []byte("x"))
			_, createErr := s.Create(t.Context(), "a", strings.NewReader("x"))
			for _, err := range []error{listErr, openErr, swapErr, createErr} {
				if err == nil || store.IsPermanent(err) != (test.class != nil) || !errors.Is(err, test.class) && test.class != nil {
					t.Errorf("error is %v, want one that is %v", err, test.class)
				} else if !strings.Contains(err.Error(), test.text) || len(err.Error()) > 500 {
					t.Errorf("error is %q, want %q in it", err, test.text)
				}
			}
		})
	}
}

// A listing that is not whole is an error, and never an empty one.
func TestForgedListings(t *testing.T) {
	for _, blobs := range []string{"", "<Blobs><Blob></Blob></Blobs>", "<Blobs><Blob><Name>a</Name></Blob></Blobs>", "<Blobs><Blob><Properties/></Blob></Blobs>"} {
		cfg := azure.Config{Container: "c", CredentialsDir: credentials(t, "storageAccount", "a", "storageKey", "a2V5")}
		cfg.Endpoint = storetest.Answering(t, http.StatusOK, header("Content-Type: application/xml"), "<EnumerationResults>"+blobs+"</EnumerationResults>")
		if infos, err := open(t, cfg).List(t.Context(), ""); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %+v, %v", blobs, infos, err)
		}
	}
}

// Create holds some blocks, not the object.
func TestMemory(t *testing.T) {
	const size = 256 << 20
	cfg := azure.Config{Container: "c", CredentialsDir: credentials(t, "storageAccount", "a", "storageKey", "a2V5")}
	cfg.Endpoint = storetest.Answering(t, http.StatusCreated, header("ETag: 1"), "")
	s := open(t, cfg)
	s.PartSize = 4 << 20
	most, before := int64(0), resident(t)
	src := &watched{Reader: io.LimitReader(rand.NewChaCha8([32]byte{}), size), every: 32 << 20, do: func() { most = max(most, resident(t)) }}
	if _, err := s.Create(t.Context(), "a", src); err != nil {
		t.Fatal(err)
	}
	if used := most - before; used > size/2 { // the race detector multiplies it
		t.Errorf("%d MiB of memory are used", used>>20)
	}
}

// resident returns how many bytes of memory are in use. The SDK keeps blocks
// outside of the heap.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var total, pages int64
	if _, err := fmt.Sscan(string(stat), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
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
