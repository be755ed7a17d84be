package store_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestPrefixKeepsApart(t *testing.T) {
	whole := mem.New()
	a, ab := store.Prefix(whole, "a"), store.Prefix(whole, "ab/")
	for _, s := range []store.Store{whole, a, ab} {
		if _, err := s.Create(t.Context(), "x", strings.NewReader(s.String())); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		s    store.Store
		name string
		want []string
	}{
		{whole, "mem:", []string{"a/x", "ab/x", "x"}},
		{a, "mem:/a", []string{"x"}},
		{ab, "mem:/ab", []string{"x"}},
	}
	for _, test := range tests {
		infos, err := test.s.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, info := range infos {
			got = append(got, info.Name)
		}
		if !slices.Equal(got, test.want) || test.s.String() != test.name {
			t.Errorf("%s lists %q, want %s with %q", test.s, got, test.name, test.want)
		}
	}
}

func TestPrefixOfNothing(t *testing.T) {
	whole := mem.New()
	if store.Prefix(whole, "/") != store.Store(whole) {
		t.Error("no prefix wraps")
	}
	for _, prefix := range []string{"..", "a/../..", ".tmp", "a b"} {
		_, err := store.Prefix(whole, prefix).Create(t.Context(), "x", strings.NewReader(""))
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("create behind prefix %q: %v", prefix, err)
		}
	}
}
