package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// copying is a provider that notes what it is asked to copy.
type copying struct {
	store.Store
	name    string
	src     store.Store
	srcName string
	err     error
}

func (c *copying) CopyFrom(_ context.Context, name string, src store.Store, srcName string) (store.Info, bool, error) {
	c.name, c.src, c.srcName = name, src, srcName
	return store.Info{Name: name}, c.err == nil, c.err
}

func TestCopyFindsTheProviders(t *testing.T) {
	from, to := mem.New(), &copying{Store: mem.New()}
	src := store.Prefix(store.Retry(store.Prefix(from, "a/b")), "c")
	dst := store.Prefix(store.Retry(to), "d")
	info, done, err := store.Copy(t.Context(), dst, "x", src, "y")
	if err != nil || !done || info.Name != "x" {
		t.Errorf("got %+v, %t, %v", info, done, err)
	}
	if to.name != "d/x" || to.src != from || to.srcName != "a/b/c/y" {
		t.Errorf("asked to copy %s of %v to %s", to.srcName, to.src, to.name)
	}
	to.err = errors.New("refused")
	if _, done, err := store.Copy(t.Context(), dst, "x", src, "y"); done || !errors.Is(err, to.err) {
		t.Errorf("got %t, %v", done, err)
	}
}

func TestCopyWhereNoProviderCan(t *testing.T) {
	for _, dst := range []store.Store{mem.New(), store.Prefix(store.Retry(mem.New()), "d")} {
		if _, done, err := store.Copy(t.Context(), dst, "x", mem.New(), "y"); done || err != nil {
			t.Errorf("got %t, %v", done, err)
		}
	}
}
