package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// Every wrapper is a store like any other.
func TestWrappers(t *testing.T) {
	nothing := func(storetest.Call) storetest.Fault { return storetest.Fault{} }
	wrappers := map[string]func(store.Store) store.Store{
		"prefix":  func(s store.Store) store.Store { return store.Prefix(s, "/some/where/") },
		"retry":   func(s store.Store) store.Store { return store.Retry(s) },
		"metrics": func(s store.Store) store.Store { return store.Metrics(s, "source", nil) },
		"faulty":  func(s store.Store) store.Store { return storetest.NewFaulty(s, nothing) },
		"all": func(s store.Store) store.Store {
			return store.Prefix(store.Retry(store.Metrics(s, "source", nil)), "p")
		},
	}
	for name, wrap := range wrappers {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) store.Store { return wrap(mem.New()) })
		})
	}
}

// place is a capability.
type place interface{ Place() string }

type placed struct{ store.Store }

func (placed) Place() string { return "here" }

func TestAs(t *testing.T) {
	wrapped := store.Prefix(store.Retry(store.Metrics(placed{mem.New()}, "x", nil)), "p")
	if p, ok := store.As[place](wrapped); !ok || p.Place() != "here" {
		t.Errorf("the capability of the store below is not found: %v, %t", p, ok)
	}
	if p, ok := store.As[place](store.Retry(mem.New())); ok {
		t.Errorf("found a capability that is not there: %v", p)
	}
}

func TestIsPermanent(t *testing.T) {
	foreign := errors.New("connection reset")
	tests := map[error]bool{
		foreign:                  false,
		store.Permanent(foreign): true,
		fmt.Errorf("put: %w", store.Permanent(foreign)): true,
		fmt.Errorf("put: %w", fs.ErrPermission):         true,
		errors.Join(foreign, store.ErrChanged):          true,
		store.ErrNoContainer:                            true,
	}
	for err, want := range tests {
		if got := store.IsPermanent(err); got != want {
			t.Errorf("IsPermanent(%v) = %t", err, got)
		}
	}
	if store.Permanent(nil) != nil || store.IsPermanent(nil) {
		t.Error("no error is an error")
	}
	if err := store.Permanent(foreign); !errors.Is(err, foreign) || err.Error() != foreign.Error() {
		t.Errorf("%v is not what was marked", err)
	}
}

func TestCheckNameTellsTheName(t *testing.T) {
	err := store.CheckName("a\n" + strings.Repeat("b", 10_000))
	if !errors.Is(err, fs.ErrInvalid) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 200 {
		t.Errorf("error is %v", err)
	}
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"a/b", "../a", "a/../b", ".a", "a\\b", "a//b", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if store.CheckName(name) != nil {
			return
		}
		for element := range strings.SplitSeq(name, "/") {
			if element == "" || element[0] == '.' {
				t.Errorf("%q is accepted", name)
			}
		}
		if store.CheckName("p/"+name) != nil && len(name) < 500 {
			t.Errorf("%q is refused behind a prefix", name)
		}
	})
}
