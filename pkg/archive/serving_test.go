package archive_test

import (
	"slices"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestServing(t *testing.T) {
	a := archive.New(mem.New())
	for range 2 { // it may be repeated
		for _, name := range []string{"m/2 ü", "m1"} {
			if err := a.MarkServing(t.Context(), archive.Serving{OperationID: "op", Member: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := a.ServingMembers(t.Context(), "op")
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"m/2 ü", "m1"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := a.ServingMembers(t.Context(), archive.FirstHistory); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	if all, err := a.Adoptions(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("adoptions %v, %v", all, err)
	}
}
