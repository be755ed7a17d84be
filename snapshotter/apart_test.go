package snapshotter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// While work goes on apart, no full begins, and what waits for it gives up with its
// context; and the other way round.
func TestApart(t *testing.T) {
	t.Parallel()
	c, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := snapshotter.New(c, archive.New(mem.New()))
	late := errors.New("it waits")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	failed := errors.New("the work failed")
	err = s.Apart(t.Context(), func(context.Context) error {
		if _, err := s.Full(ended); !errors.Is(err, late) {
			t.Errorf("a full meanwhile: %v", err)
		}
		if err := s.Apart(ended, func(context.Context) error { return nil }); !errors.Is(err, late) {
			t.Errorf("other work meanwhile: %v", err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if err := s.Apart(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
