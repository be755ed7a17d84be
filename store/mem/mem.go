package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Store is a store in memory. Use New.
type Store struct {
	mu      sync.Mutex
	objects map[string]object
	writes  uint64 // counts writes, so that no version ever returns
}

type object struct {
	data []byte // never changed, so that readers can share it
	info store.Info
}

// New returns an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

func (s *Store) String() string { return "mem:" }

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var infos []store.Info
	for name, o := range s.objects {
		if strings.HasPrefix(name, prefix) {
			infos = append(infos, o.info)
		}
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	o, err := s.get(ctx, name)
	if err != nil {
		return nil, store.Info{}, fmt.Errorf("open %s: %w", name, err)
	}
	return store.Exact(ctx, io.NopCloser(bytes.NewReader(o.data)), o.info), o.info, nil
}

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	if err := check(ctx, name); err != nil {
		return store.Info{}, err
	}
	data, err := io.ReadAll(store.Bound(ctx, r))
	if err != nil {
		return store.Info{}, fmt.Errorf("create %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Info{}, fmt.Errorf("create %s: %w", name, err)
	}
	if _, taken := s.objects[name]; taken {
		return store.Info{}, fmt.Errorf("create %s: %w", name, fs.ErrExist)
	}
	return s.put(name, data), nil
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	o, err := s.get(ctx, name)
	if err == nil {
		err = store.CheckSize(name, o.info.Size)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", name, err)
	}
	return bytes.Clone(o.data), o.info.Version, nil
}

// Swap implements store.Swapper.
func (s *Store) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	if err := check(ctx, name); err != nil {
		return "", err
	}
	if err := store.CheckSize(name, int64(len(data))); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name].info.Version != old {
		return "", fmt.Errorf("swap %s: %w", name, store.ErrChanged)
	}
	return s.put(name, bytes.Clone(data)).Version, nil
}

func check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *Store) get(ctx context.Context, name string) (object, error) {
	if err := check(ctx, name); err != nil {
		return object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, there := s.objects[name]
	if !there {
		return object{}, fs.ErrNotExist
	}
	return o, nil
}

// put stores data. The caller holds the lock.
func (s *Store) put(name string, data []byte) store.Info {
	s.writes++
	info := store.Info{
		Name:     name,
		Size:     int64(len(data)),
		Modified: time.Now(),
		Version:  store.Version(strconv.FormatUint(s.writes, 10)),
	}
	s.objects[name] = object{data, info}
	return info
}
