package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Run tests the stores that open returns. Each test opens its own, which must
// be empty; open registers its own cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"an empty store has nothing", testEmpty},
		{"a created object is read back", testCreate},
		{"an empty object is an object", testCreateEmpty},
		{"a big stream of unknown size is read back", testCreateBig},
		{"a taken name stays as it is", testCreateTaken},
		{"a source that fails leaves nothing", testCreateBrokenSource},
		{"a create cancelled on the way leaves nothing", testCreateCancelled},
		{"a slow create is not seen before its end", testCreateSlow},
		{"one of many creates wins", testCreateRace},

		{"listing is in byte order", testListOrder},
		{"listing keeps to the prefix", testListPrefix},
		{"listing and removing at once", testListRemove},
		{"a removed object is gone", testRemove},
		{"content is read on from a byte", testOpenAt},
		{"reading stops when its context ends", testOpenCancelled},
		{"an ended context does nothing", testCancelled},

		{"odd names are names", testOddNames},
		{"bad names are refused", testBadNames},

		{"a swap replaces what was read", testSwap},
		{"a swap of another version changes nothing", testSwapStale},
		{"a swap takes so many bytes and no more", testSwapSize},
		{"an object has one version whoever tells it", testVersions},
		{"one of many swaps wins", testSwapRace},
		{"one of many first swaps wins", testSwapCreateRace},
		{"one of many creates and first swaps wins", testCreateSwapRace},
		{"counting by swaps loses nothing", testSwapCount},
		{"a swap does not bring back what was removed", testSwapRemove},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// errSource is what broken sources fail with.
var errSource = errors.New("source failed on purpose")

func create(t *testing.T, s store.Store, name, content string) store.Info {
	t.Helper()
	info, err := s.Create(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatalf("create %q: %v", name, err)
	}
	if info.Name != name || info.Size != int64(len(content)) || info.Version == "" {
		t.Fatalf("create %q of %d bytes answered %+v", name, len(content), info)
	}
	return info
}

func wantContent(t *testing.T, s store.Store, name, want string) {
	t.Helper()
	body, info, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("open %q: %v", name, err)
	}
	defer body.Close()
	got, err := io.ReadAll(body)
	if err != nil || string(got) != want {
		t.Fatalf("content of %q is %.80q, %v, want %.80q", name, got, err, want)
	}
	if info.Name != name || info.Size != int64(len(want)) || info.Version == "" || info.Modified.IsZero() {
		t.Errorf("open %q of %d bytes answered %+v", name, len(want), info)
	}
}

// wantNames checks what a listing shows, and that its facts are there.
func wantNames(t *testing.T, s store.Store, prefix string, want ...string) {
	t.Helper()
	infos, err := s.List(t.Context(), prefix)
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	if got := names(infos); !slices.Equal(got, want) {
		t.Fatalf("list %q shows %q, want %q", prefix, got, want)
	}
	for _, info := range infos {
		if info.Version == "" || info.Modified.IsZero() {
			t.Errorf("list %q shows %+v", prefix, info)
		}
	}
}

func names(infos []store.Info) []string {
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

func wantErr(t *testing.T, call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v, want one that is %q", call, err, want)
	}
}

// wantNothing checks that an empty store is still empty. It may have become a
// container meanwhile.
func wantNothing(t *testing.T, s store.Store) {
	t.Helper()
	infos, err := s.List(t.Context(), "")
	if len(infos) > 0 || err != nil && !errors.Is(err, store.ErrNoContainer) {
		t.Fatalf("the store lists %q, %v, want nothing", names(infos), err)
	}
}

// wantAllErr checks that every call with a name fails with want.
func wantAllErr(t *testing.T, ctx context.Context, s store.Store, name string, want error) {
	t.Helper()
	_, _, err := s.Open(ctx, name)
	wantErr(t, "open", err, want)
	_, err = s.Create(ctx, name, strings.NewReader("x"))
	wantErr(t, "create", err, want)
	wantErr(t, "remove", s.Remove(ctx, name), want)
	_, _, err = s.Read(ctx, name)
	wantErr(t, "read", err, want)
	_, err = s.Swap(ctx, name, "", []byte("x"))
	wantErr(t, "swap", err, want)
}

// stream returns size bytes that do not repeat, from a source that only reads.
func stream(size int64) io.Reader {
	return struct{ io.Reader }{io.LimitReader(rand.NewChaCha8([32]byte{1}), size)}
}

func digest(t *testing.T, r io.Reader) []byte {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Fatal(err)
	}
	return h.Sum(nil)
}

func wantStream(t *testing.T, s store.Store, name string, size int64) {
	t.Helper()
	body, info, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if info.Size != size {
		t.Errorf("size of %q is %d, want %d", name, info.Size, size)
	}
	if !bytes.Equal(digest(t, body), digest(t, stream(size))) {
		t.Errorf("content of %q is not what was sent", name)
	}
}
