package storetest

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// RunCopies tests the copies that a server makes between two stores, which open
// returns empty. Of several to one name one wins, if the server heeds
// conditions.
func RunCopies(t *testing.T, heeds bool, open func(t *testing.T) (dst, src store.Store)) {
	tests := map[string]func(t *testing.T, dst, src store.Store){
		"all bytes are copied":               testCopy,
		"a copy leaves a taken name":         testCopyTaken,
		"what is missing is not copied":      testCopyMissing,
		"bad names are not copied":           testCopyBadNames,
		"an ended context copies nothing":    testCopyCancelled,
		"copies pass through wrappers":       testCopyWrapped,
		"an object can be copied to its own": testCopySelf,
	}
	if heeds {
		tests["one of many copies wins"] = testCopyRace
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dst, src := open(t)
			test(t, dst, src)
		})
	}
}

// mustCopy copies an object of so many bytes and looks at the copy.
func mustCopy(t *testing.T, dst store.Store, name string, src store.Store, srcName string, size int64) {
	t.Helper()
	info, done, err := store.Copy(t.Context(), dst, name, src, srcName)
	if err != nil || !done || info.Name != name || info.Size != size {
		t.Fatalf("copy of %d bytes: %+v, %t, %v", size, info, done, err)
	}
	wantStream(t, dst, name, size)
	if infos, err := dst.List(t.Context(), name); err != nil || len(infos) != 1 || infos[0].Version != info.Version {
		t.Errorf("listed is %+v, %v, want version %s", infos, err, info.Version)
	}
}

func testCopy(t *testing.T, dst, src store.Store) {
	for name, size := range map[string]int64{"one": 1, "some": 1000, "a+c%d/big": 4 * bigSize} {
		if _, err := src.Create(t.Context(), name, stream(size)); err != nil {
			t.Fatal(err)
		}
		mustCopy(t, dst, "to/"+name, src, name, size)
	}
	create(t, src, "empty", "")
	_, done, err := store.Copy(t.Context(), dst, "empty", src, "empty")
	if err != nil {
		t.Fatal(err)
	}
	if done {
		wantContent(t, dst, "empty", "")
	} else {
		wantNames(t, dst, "empty")
	}
}

func testCopyTaken(t *testing.T, dst, src store.Store) {
	create(t, src, "a", "another")
	create(t, dst, "a", "first")
	_, done, err := store.Copy(t.Context(), dst, "a", src, "a")
	wantErr(t, "copy", err, fs.ErrExist)
	if !done {
		t.Error("it is said to be impossible")
	}
	wantContent(t, dst, "a", "first")
}

func testCopyMissing(t *testing.T, dst, src store.Store) {
	create(t, src, "other", "x")
	_, done, err := store.Copy(t.Context(), dst, "a", src, "missing")
	wantErr(t, "copy", err, fs.ErrNotExist)
	if !done {
		t.Error("it is said to be impossible")
	}
	wantNothing(t, dst)
}

func testCopyBadNames(t *testing.T, dst, src store.Store) {
	create(t, src, "a", "x")
	_, _, err := store.Copy(t.Context(), dst, "../a", src, "a")
	wantErr(t, "copy to", err, fs.ErrInvalid)
	_, _, err = store.Copy(t.Context(), dst, "a", src, "../a")
	wantErr(t, "copy from", err, fs.ErrInvalid)
	wantNothing(t, dst)
}

func testCopyCancelled(t *testing.T, dst, src store.Store) {
	create(t, src, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := store.Copy(ctx, dst, "a", src, "a")
	wantErr(t, "copy", err, context.Canceled)
	wantNothing(t, dst)
}

func testCopyWrapped(t *testing.T, dst, src store.Store) {
	create(t, src, "from/here/a", "alpha")
	wrapped := store.Prefix(store.Retry(store.Metrics(dst, "destination", nil)), "to")
	info, done, err := store.Copy(t.Context(), wrapped, "b", store.Prefix(store.Retry(src), "from/here"), "a")
	if err != nil || !done || info.Name != "b" {
		t.Fatalf("copy: %+v, %t, %v", info, done, err)
	}
	wantContent(t, dst, "to/b", "alpha")
}

func testCopySelf(t *testing.T, dst, _ store.Store) {
	create(t, dst, "a", "alpha")
	_, done, err := store.Copy(t.Context(), dst, "b", dst, "a")
	if err != nil || !done {
		t.Fatalf("copy: %t, %v", done, err)
	}
	wantContent(t, dst, "b", "alpha")
	_, _, err = store.Copy(t.Context(), dst, "a", dst, "a")
	wantErr(t, "copy to itself", err, fs.ErrExist)
}

func testCopyRace(t *testing.T, dst, src store.Store) {
	const racers = 8
	create(t, src, "a", "alpha")
	wins := 0
	for _, err := range together(racers, func(int) error {
		_, done, err := store.Copy(t.Context(), dst, "a", src, "a")
		if err == nil && !done {
			err = errors.New("it is said to be impossible")
		}
		return err
	}) {
		switch {
		case err == nil:
			wins++
		case store.IsPermanent(err) && !errors.Is(err, fs.ErrExist):
			t.Errorf("a loser was told: %v", err)
		}
	}
	if wins != 1 {
		t.Errorf("%d copies won", wins)
	}
	wantContent(t, dst, "a", "alpha")
}
