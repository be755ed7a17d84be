package cloud

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/store"
)

func (s *Store) common() *Store { return s }

// CopyFrom implements store.CopierFrom, between stores that one request can
// name. What the store refuses to do is not done: then the object can be read
// and created.
func (s *Store) CopyFrom(ctx context.Context, name string, src store.Store, srcName string) (store.Info, bool, error) {
	from, ok := src.(interface{ common() *Store })
	if !ok || !s.driver.Reaches(from.common().driver) {
		return store.Info{}, false, nil
	}
	err := errors.Join(check(ctx, name), check(ctx, srcName))
	var info store.Info
	if err == nil {
		info, err = s.copy(ctx, Write{Name: name, ID: rand.Text()}, from.common(), srcName)
	}
	if err == nil {
		return info, true, nil
	}
	err = s.explain(ctx, "copy", name, err)
	for _, refusal := range []error{errors.ErrUnsupported, fs.ErrPermission} {
		if errors.Is(err, refusal) {
			return store.Info{}, false, nil
		}
	}
	return store.Info{}, true, err
}

func (s *Store) copy(ctx context.Context, w Write, from *Store, srcName string) (store.Info, error) {
	was, _, err := from.driver.Head(ctx, srcName)
	if err != nil {
		return store.Info{}, err
	}
	_, _, err = s.driver.Head(ctx, w.Name) // not all stand-ins of the clouds heed conditions of copies
	switch {
	case err == nil:
		return store.Info{}, fs.ErrExist
	case !errors.Is(s.class("copy", err), fs.ErrNotExist):
		return store.Info{}, err
	}
	info, err := s.driver.Copy(ctx, w, from.driver, was)
	return s.settle(ctx, w, info, err)
}
