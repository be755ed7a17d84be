package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// flipping is a store that gives content with a changed byte as long as it is told to.
type flipping struct {
	store.Store
	flip bool
}

func (f *flipping) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	r, info, err := f.Store.Open(ctx, name)
	if err != nil || !f.flip {
		return r, info, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, info, err
	}
	data[len(data)/2] ^= 1
	return io.NopCloser(bytes.NewReader(data)), info, nil
}

func TestPutOpenedLooksAtWhatWasStored(t *testing.T) {
	s := &flipping{Store: mem.New()}
	a := archive.New(s)
	m := snapshot.Manifest{Kind: snapshot.Full, First: 5, Last: 5, Time: time.Unix(1_000_000_000, 0)}
	put, err := a.PutOpened(t.Context(), m, bytes.NewReader(bytes.Repeat([]byte("etcd"), 1000)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := a.Stored(t.Context(), put)
	if err != nil || info.Name != put.Name || info.Size != put.StoredSize || info.Version == "" {
		t.Errorf("stored is %+v, %v", info, err)
	}
	s.flip = true
	if err := a.CheckOpened(t.Context(), put); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("with a changed byte: %v", err)
	}
	m.Last, m.First = 6, 6
	if _, err := a.PutOpened(t.Context(), m, bytes.NewReader([]byte("etcd"))); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("with a changed byte: %v", err)
	}
	if _, err := a.Stored(t.Context(), snapshot.Manifest{Name: "full-0000000000000009-20010909T014640Z.db.zst"}); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("what is not there: %v", err)
	}
}

// Nothing counts before every byte of it was read back.
func TestSaveLooksAtWhatWasStored(t *testing.T) {
	for name, save := range map[string]func(context.Context, *archive.Archive) error{
		"stream": func(ctx context.Context, a *archive.Archive) error {
			_, err := a.Save(ctx, full(7), bytes.NewReader(content(1000)))
			return err
		},
		"buffer": func(ctx context.Context, a *archive.Archive) error {
			_, err := a.SaveBuffer(ctx, deltaOf(8, 9), pack(t, content(1000)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &flipping{Store: mem.New(), flip: true}
			if err := save(t.Context(), archive.New(s)); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("with a changed byte: %v", err)
			}
			if l := list(t, archive.New(s.Store)); len(l.Manifests) != 0 || len(l.Strays) != 1 {
				t.Errorf("what counts: %+v", l)
			}
		})
	}
}
