package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	lockFile = ".lock"
	lockPoll = 2 * time.Millisecond
)

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	f, info, err := s.openObject(ctx, name)
	if err != nil {
		return nil, "", s.explain("read", name, err)
	}
	defer f.Close()
	if err := store.CheckSize(name, info.Size); err != nil {
		return nil, "", s.explain("read", name, err)
	}
	data, err := io.ReadAll(store.Exact(ctx, f, info))
	if err != nil {
		return nil, "", s.explain("read", name, err)
	}
	return data, info.Version, nil
}

// Swap implements store.Swapper.
func (s *Store) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	info, err := s.swap(ctx, name, old, data)
	if err != nil {
		return "", s.explain("swap", name, err)
	}
	return info.Version, nil
}

func (s *Store) swap(ctx context.Context, name string, old store.Version, data []byte) (store.Info, error) {
	if err := errors.Join(store.CheckName(name), store.CheckSize(name, int64(len(data)))); err != nil {
		return store.Info{}, err
	}
	root, err := s.openToWrite(ctx)
	if err != nil {
		return store.Info{}, err
	}
	defer root.Close()
	unlock, err := lock(ctx, root)
	if err != nil {
		return store.Info{}, err
	}
	defer unlock()
	return replace(ctx, root, name, old, data)
}

// replace does the swap. The caller holds the lock.
func replace(ctx context.Context, root *os.Root, name string, old store.Version, data []byte) (store.Info, error) {
	now, err := stat(root, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return store.Info{}, err
	}
	if now.Version != old {
		return store.Info{}, store.ErrChanged
	}
	t, err := newTemp(root)
	if err != nil {
		return store.Info{}, err
	}
	defer t.discard()
	if err := t.fill(ctx, bytes.NewReader(data)); err != nil {
		return store.Info{}, err
	}
	info, err := t.seal(name, now.Modified)
	if err != nil {
		return store.Info{}, err
	}
	if old == "" { // only swaps and removals are locked out: a create may win
		err := t.link(name)
		if errors.Is(err, fs.ErrExist) {
			err = store.ErrChanged
		}
		return info, err
	}
	if err := root.Rename(t.name, name); err != nil {
		return store.Info{}, err
	}
	return info, syncPath(root, path.Dir(name))
}

// lock waits until no other swap or removal is under way in the store, in this
// process or another one.
func lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	f, err := openOwn(root, lockFile, 0)
	if err != nil {
		return nil, err
	}
	for {
		err := tryLock(f)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for the lock that another swap or removal holds: %w", ctx.Err())
		}
	}
}
