package mem_test

import (
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New() })
}

func TestVersionsNeverReturn(t *testing.T) {
	s := mem.New()
	first, err := s.Swap(t.Context(), "state", "", []byte("same"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Swap(t.Context(), "state", first, []byte("same"))
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Errorf("two writes of the same bytes have the version %q", first)
	}
}
