package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Presets of a Store.
const (
	DefaultPartSize = 8 << 20
	DefaultParallel = 4
	DefaultTogether = 6
)

// Store is a store in a cloud. Set its fields before the first call.
type Store struct {
	// PartSize is the size in bytes of the parts that big objects are sent in. It
	// doubles now and then, so that no object has too many. A create holds Parallel
	// parts in memory, which are sent at once, and all creates hold Together.
	PartSize int64
	Parallel int
	Together int

	driver  Driver
	limits  Limits
	memory  func() *budget
	ignored atomic.Int64
}

// New returns the store that d knows.
func New(d Driver, limits Limits) *Store {
	s := &Store{PartSize: DefaultPartSize, Parallel: DefaultParallel, Together: DefaultTogether, driver: d, limits: limits}
	s.memory = sync.OnceValue(func() *budget { return newBudget(s.Together) })
	return s
}

func (s *Store) String() string { return s.driver.String() }

// GoString keeps what %#v shows to what String does.
func (s *Store) GoString() string { return fmt.Sprintf("cloud.Store(%s)", s) }

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Info, error) {
	infos, err := s.list(ctx, prefix)
	if err != nil {
		return nil, s.explain(ctx, "list", prefix, err)
	}
	// Amazon's directory buckets do not list in order.
	slices.SortFunc(infos, func(a, b store.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) ([]store.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !startsName(prefix) { // not every server takes it
		return nil, nil
	}
	infos, err := s.driver.List(ctx, prefix)
	return slices.DeleteFunc(infos, func(info store.Info) bool {
		foreign := !strings.HasPrefix(info.Name, prefix) || store.CheckName(info.Name) != nil
		if foreign {
			s.ignored.Add(1)
		}
		return foreign
	}), err
}

// Ignored implements store.Ignorer.
func (s *Store) Ignored() int64 { return s.ignored.Load() }

// startsName reports whether there can be an object whose name starts so.
func startsName(prefix string) bool {
	return store.CheckName(prefix) == nil || store.CheckName(prefix+"x") == nil
}

// check is done before any call about an object.
func check(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return store.CheckName(name)
}

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	return s.get(ctx, "open", name, 0, "")
}

// OpenAt implements store.RangeOpener.
func (s *Store) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	body, _, err := s.get(ctx, "open", name, offset, version)
	if errors.Is(err, fs.ErrNotExist) { // or replaced
		err = s.explain(ctx, "open", name, store.ErrChanged)
	}
	return body, err
}

func (s *Store) get(ctx context.Context, op, name string, offset int64, version store.Version) (io.ReadCloser, store.Info, error) {
	err := check(ctx, name)
	if err == nil {
		var body io.ReadCloser
		var info store.Info
		if body, info, err = s.driver.Get(ctx, name, offset, version); err == nil {
			return store.Exact(ctx, body, info), info, nil
		}
	}
	return nil, store.Info{}, s.explain(ctx, op, name, err)
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := check(ctx, name)
	if err == nil {
		err = s.driver.Delete(ctx, name)
	}
	if err = s.explain(ctx, "remove", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	body, info, err := s.get(ctx, "read", name, 0, "")
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	if err := store.CheckSize(name, info.Size); err != nil {
		return nil, "", err
	}
	data, err := io.ReadAll(body)
	return data, info.Version, err
}

// Swap implements store.Swapper.
func (s *Store) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	err := errors.Join(check(ctx, name), store.CheckSize(name, int64(len(data))))
	var info store.Info
	if err == nil {
		info, err = s.driver.Put(ctx, Write{Name: name, Old: old}, data)
	}
	err = s.explain(ctx, "swap", name, err)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return "", s.explain(ctx, "swap", name, store.ErrChanged)
	}
	return info.Version, err
}
