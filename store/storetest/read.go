package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

func testEmpty(t *testing.T, s store.Store) {
	wantNothing(t, s)
	create(t, s, "a", "x") // from here on there is a container for sure
	_, _, err := s.Open(t.Context(), "b")
	wantErr(t, "open", err, fs.ErrNotExist)
	_, _, err = s.Read(t.Context(), "b")
	wantErr(t, "read", err, fs.ErrNotExist)
	_, _, err = s.Open(t.Context(), "dir/b")
	wantErr(t, "open", err, fs.ErrNotExist)
	if err := s.Remove(t.Context(), "b"); err != nil {
		t.Errorf("remove of nothing: %v", err)
	}
	if err := s.Remove(t.Context(), "dir/b"); err != nil {
		t.Errorf("remove of nothing in a folder of nothing: %v", err)
	}
	wantNames(t, s, "none")
	wantNames(t, s, "none/")
	if s.String() == "" {
		t.Error("the store has no name")
	}
}

func testListOrder(t *testing.T, s store.Store) {
	// In byte order '-' < '.' < '/' < '0', so that walking folders is not enough.
	want := []string{"M", "Z/b", "a-1", "a-b/c", "a.b", "a/b", "a/b-c", "a/c/d", "a0", "b"}
	for i := range want {
		create(t, s, want[(i*7)%len(want)], "x")
	}
	wantNames(t, s, "", want...)
}

func testListPrefix(t *testing.T, s store.Store) {
	for _, name := range []string{"dir/a", "dir/ab", "dir/b", "dir2/a", "dir/sub/a", "other"} {
		create(t, s, name, "x")
	}
	tests := map[string][]string{
		"dir/":      {"dir/a", "dir/ab", "dir/b", "dir/sub/a"},
		"dir":       {"dir/a", "dir/ab", "dir/b", "dir/sub/a", "dir2/a"},
		"dir/a":     {"dir/a", "dir/ab"},
		"dir/sub/":  {"dir/sub/a"},
		"dir/sub":   {"dir/sub/a"},
		"other":     {"other"},
		"other/":    nil,
		"others":    nil,
		"/dir":      nil,
		"dir//":     nil,
		"../":       nil,
		"dir/../":   nil,
		"./":        nil,
		".":         nil,
		"dir/\x00a": nil,
	}
	for prefix, want := range tests {
		wantNames(t, s, prefix, want...)
	}
}

func testListRemove(t *testing.T, s store.Store) {
	const objects = 40
	var all []string
	for i := range objects {
		all = append(all, fmt.Sprintf("dir%d/%02d", i%3, i))
		create(t, s, all[i], "x")
	}
	removed := make(chan error, 1)
	go func() {
		defer close(removed)
		for _, name := range all {
			if err := s.Remove(t.Context(), name); err != nil {
				removed <- err
				return
			}
		}
	}()
	for left := objects; left > 0; {
		infos, err := s.List(t.Context(), "")
		if err != nil {
			t.Fatalf("list while removing: %v", err)
		}
		got := names(infos)
		if !slices.IsSorted(got) || len(got) > left {
			t.Fatalf("list while removing shows %q, after %d names", got, left)
		}
		left = len(got)
		select {
		case err := <-removed:
			if err != nil {
				t.Fatal(err)
			}
			wantNames(t, s, "")
			return
		default:
		}
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
}

func testRemove(t *testing.T, s store.Store) {
	create(t, s, "dir/a", "one")
	create(t, s, "dir/b", "two")
	if err := s.Remove(t.Context(), "dir"); err != nil {
		t.Errorf("remove of a folder, which is no object: %v", err)
	}
	for range 2 {
		if err := s.Remove(t.Context(), "dir/a"); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Open(t.Context(), "dir/a")
		wantErr(t, "open", err, fs.ErrNotExist)
		wantNames(t, s, "", "dir/b")
	}
	create(t, s, "dir/a", "three")
	wantContent(t, s, "dir/a", "three")
	wantContent(t, s, "dir/b", "two")
}

func testOpenCancelled(t *testing.T, s store.Store) {
	if _, err := s.Create(t.Context(), "big", stream(bigSize)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, _, err := s.Open(ctx, "big")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.Copy(io.Discard, body)
	wantErr(t, "reading", err, context.Canceled)
}

func testCancelled(t *testing.T, s store.Store) {
	create(t, s, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.List(ctx, "")
	wantErr(t, "list", err, context.Canceled)
	for _, name := range []string{"a", "b"} {
		wantAllErr(t, ctx, s, name, context.Canceled)
	}
	wantNames(t, s, "", "a")
	wantContent(t, s, "a", "x")
}

func testOddNames(t *testing.T, s store.Store) {
	want := []string{
		"!\"#$%&'()*+,-.:;<=>?@[]^_`{|}~",
		"%2e%2e/%2F", "%41", "A", "a..b", "a.", "a/b.c/d..", "a=b&c=d", "a?b#c",
		"con", "full-0000000000000042-20261120T231600Z.db.zst.age.json",
		strings.Repeat("x/", 99) + "z",
		strings.Repeat("y", 200) + "/" + strings.Repeat("y", 200),
		"~",
	}
	slices.Sort(want)
	for i, name := range want {
		create(t, s, name, fmt.Sprint("content ", i))
	}
	wantNames(t, s, "", want...)
	for i, name := range want {
		wantContent(t, s, name, fmt.Sprint("content ", i))
		if _, err := s.Swap(t.Context(), name, "", nil); err == nil {
			t.Errorf("%q is free for swaps", name)
		}
	}
	for _, name := range want {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	wantNothing(t, s)
}

// badNames are names that every store refuses.
var badNames = []string{
	"", ".", "..", "/", "/etc/passwd", "../x", "a/../../x", "a/..", "a/./b", "./a", "a//b", "a/", "//a",
	".hidden", "a/.hidden", ".tmp/x", ".lock",
	"a\x00b", "a\nb", "a\rb", "a\tb", "a b", " ", "a\\b", "a\x7fb", "\x1b[31m", "ä", "a\u202eb", "\xff",
	strings.Repeat("x", 513), strings.Repeat("x/", 5000) + "x",
}

func testBadNames(t *testing.T, s store.Store) {
	for _, name := range badNames {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			wantAllErr(t, t.Context(), s, name, fs.ErrInvalid)
		})
	}
	wantNothing(t, s)
}

func testOpenAt(t *testing.T, s store.Store) {
	ranges, ok := store.As[store.RangeOpener](s)
	version := create(t, s, "a", "0123456789").Version
	other := create(t, s, "other", "another").Version
	if !ok {
		return
	}
	body, err := ranges.OpenAt(t.Context(), "a", 4, version)
	if errors.Is(err, errors.ErrUnsupported) { // a wrapper, whose store cannot do it
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if rest, err := io.ReadAll(body); string(rest) != "456789" || err != nil {
		t.Errorf("from byte 4 on it reads %q, %v", rest, err)
	}
	for name, version := range map[string]store.Version{"a": other, "b": version} {
		_, err := ranges.OpenAt(t.Context(), name, 4, version)
		wantErr(t, "open "+name+" at another version", err, store.ErrChanged)
	}
	if _, err := s.Swap(t.Context(), "a", version, []byte("9876543210")); err != nil {
		t.Fatal(err)
	}
	_, err = ranges.OpenAt(t.Context(), "a", 4, version)
	wantErr(t, "open what was replaced", err, store.ErrChanged)
}
