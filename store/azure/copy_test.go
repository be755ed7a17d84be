package azure_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func testCopies(t *testing.T, server *storeservers.Azurite) {
	signed := credentials(t, "storageAccount", server.Account, "sasToken", signature(t, server))
	for name, dir := range map[string]string{"key": server.Credentials(t), "signature": signed} {
		t.Run(name, func(t *testing.T) {
			storetest.RunCopies(t, true, func(t *testing.T) (dst, src store.Store) {
				cfg := config(t, server)
				cfg.CredentialsDir = dir
				src = open(t, cfg)
				cfg.Container = config(t, server).Container
				return open(t, cfg), src
			})
		})
	}
}

// isCopy reports whether a request starts a copy.
func isCopy(r *http.Request) bool { return r.Header.Get("X-Ms-Copy-Source") != "" }

// slow returns a store on whose server copies end after some time, or never. It
// can be asked how often a copy was aborted.
func slow(t *testing.T, server *storeservers.Azurite, cfg azure.Config, end string, after int32) (s *azure.Store, aborted *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	aborted = new(atomic.Int32)
	cfg.Endpoint = proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
		source := r.Header.Get("X-Ms-Copy-Source")
		if r.URL.Query().Get("copyid") != "" {
			aborted.Add(1)
			return storetest.Answer(r, http.StatusNoContent, nil)
		}
		response := forward()
		status := &response.Header
		switch {
		case source != "":
			status.Set("X-Ms-Copy-Status", "pending")
		case response.Header.Get("X-Ms-Copy-Status") != "" && asked.Add(1) <= after:
			status.Set("X-Ms-Copy-Status", "pending")
		case response.Header.Get("X-Ms-Copy-Status") != "":
			status.Set("X-Ms-Copy-Status", end)
		}
		return response
	})
	return open(t, cfg), aborted
}

func testCopiesThatTakeLong(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	create(t, open(t, cfg), "a", "alpha")
	s, aborted := slow(t, server, cfg, "success", 1)
	if info, done, err := s.CopyFrom(t.Context(), "late", s, "a"); err != nil || !done || info.Size != 5 || aborted.Load() != 0 {
		t.Errorf("a copy that ends late: %+v, %t, %v", info, done, err)
	}
	s, _ = slow(t, server, cfg, "failed", 0)
	if _, _, err := s.CopyFrom(t.Context(), "failed", s, "a"); err == nil || store.IsPermanent(err) {
		t.Errorf("a copy that fails: %v", err)
	}
	s, aborted = slow(t, server, cfg, "", 1<<30)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := s.CopyFrom(ctx, "endless", s, "a"); !errors.Is(err, context.DeadlineExceeded) || aborted.Load() != 1 {
		t.Errorf("a copy that never ends: %v, aborted %d times", err, aborted.Load())
	}
	// What a copy leaves when it fails is removed.
	infos, err := open(t, cfg).List(t.Context(), "")
	if err != nil || len(infos) != 2 {
		t.Errorf("left are %v, %v", infos, err)
	}
	if _, _, err := s.Open(t.Context(), "late"); err == nil || store.IsPermanent(err) {
		t.Errorf("an object that is being copied is opened: %v", err)
	}
}

// What one may not copy there can perhaps be read and written here.
func testCopiesThatAreNotAllowed(t *testing.T, server *storeservers.Azurite) {
	for status, code := range map[int]string{
		http.StatusNotFound: "CannotVerifyCopySource", http.StatusForbidden: "AuthorizationFailure", http.StatusNotImplemented: "",
	} {
		cfg := config(t, server)
		create(t, open(t, cfg), "a", "alpha")
		cfg.Endpoint = proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
			if isCopy(r) {
				return storetest.Answer(r, status, header("X-Ms-Error-Code: "+code))
			}
			return forward()
		})
		s := open(t, cfg)
		if _, done, err := store.Copy(t.Context(), s, "b", s, "a"); done || err != nil {
			t.Errorf("%d %s: %t, %v", status, code, done, err)
		}
	}
}

func testNoCopyFromElsewhere(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	to := open(t, cfg)
	cfg.CredentialsDir = t.TempDir()
	for _, from := range []store.Store{mem.New(), open(t, cfg)} {
		if _, done, err := store.Copy(t.Context(), to, "x", from, "y"); done || err != nil {
			t.Errorf("from %s: %t, %v", from, done, err)
		}
	}
}
