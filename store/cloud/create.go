package cloud

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// errGone is that of a create which found its name taken, and then nothing there:
// it has been removed meanwhile, or there are parts of an upload that never
// ended, which some servers take for an object.
var errGone = errors.New("the name was taken, but nothing is there")

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	err := check(ctx, name)
	var info store.Info
	if err == nil {
		info, err = s.create(ctx, Write{Name: name, ID: rand.Text()}, r)
	}
	if err != nil {
		return store.Info{}, s.explain(ctx, "create", name, err)
	}
	return info, nil
}

func (s *Store) create(ctx context.Context, w Write, r io.Reader) (store.Info, error) {
	src := &Source{r: store.Bound(ctx, r), size: s.sizeOf, parallel: s.Parallel, budget: s.memory()}
	defer src.end()
	whole, err := src.start(ctx, min(smallest, s.single()), s.single())
	if err != nil {
		return store.Info{}, err
	}
	if whole {
		info, err := s.driver.Put(ctx, w, src.first)
		info, err = s.settle(ctx, w, info, err)
		if !errors.Is(err, errGone) {
			return info, err
		}
	} else if _, _, err := s.driver.Head(ctx, w.Name); err == nil { // before it reads gigabytes in vain
		return store.Info{}, fs.ErrExist
	}
	info, err := s.driver.Upload(ctx, w, src)
	if src.err != nil { // the store's is a consequence
		return store.Info{}, sourceError{src.err}
	}
	return s.settle(ctx, w, info, err)
}

// smallest is how much is read, and how much memory taken, to see whether there
// is more.
const smallest = 256 << 10

func (s *Store) single() int64 {
	if s.limits.Single > 0 {
		return s.limits.Single
	}
	return s.PartSize
}

// sizeOf returns the size of the part of that number, from 0 on. It doubles with
// every tenth of the parts that an object may have, which makes a thousand times
// more than if it did not.
func (s *Store) sizeOf(number int) int64 {
	return min(s.PartSize<<min(number/(s.limits.MaxParts/10), 9), s.limits.MaxPart)
}

// settle looks whose object took the name, if the outcome of a write is in doubt.
func (s *Store) settle(ctx context.Context, w Write, info store.Info, failed error) (store.Info, error) {
	if !errors.As(failed, new(doubt)) {
		return info, failed
	}
	there, writer, err := s.driver.Head(ctx, w.Name)
	switch {
	case err == nil && writer == w.ID:
		return there, nil
	case err == nil:
		return store.Info{}, fs.ErrExist
	}
	failed, err = s.class("create", failed), s.class("create", err)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return store.Info{}, Fail(nil, fmt.Sprintf("%v, and what became of it is unknown: %v", failed, err))
	case errors.Is(failed, fs.ErrExist):
		return store.Info{}, errGone
	}
	return store.Info{}, failed
}
