package copier_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := mem.New(), mem.New()
		fill(t, archive.New(from), everyday...)
		c := newCopier(from, to)
		p := plan(t, c)
		c.Bandwidth = 1000
		began := time.Now()
		var ends time.Duration // the first report that says all is copied
		c.Progress = func(done, total int64) {
			if done == total && ends == 0 {
				ends = time.Since(began)
			}
		}
		if _, err := c.Do(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		want := time.Duration(2*p.MissingBytes) * time.Second / 1000 // read here, read back there
		if took := time.Since(began); took < want-2*time.Second || took > want+time.Second {
			t.Errorf("%d bytes took %s, want %s", p.MissingBytes, took, want)
		}
		if ends < want-2*time.Second {
			t.Errorf("all was said to be copied after %s of %s", ends, want)
		}
	})
}

func TestBandwidthObeysTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := mem.New()
		fill(t, archive.New(from), everyday...)
		c := newCopier(from, mem.New())
		p := plan(t, c)
		c.Bandwidth = 1
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		if _, err := c.Do(ctx, p); !errors.Is(err, context.Canceled) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// provider is a store that can copy from another of its kind.
type provider struct {
	store.Store
	copies atomic.Int64
	change func([]byte) // of what is copied
	fail   error
}

func (p *provider) CopyFrom(ctx context.Context, name string, src store.Store, srcName string) (store.Info, bool, error) {
	from, ok := src.(*provider)
	if !ok {
		return store.Info{}, false, nil
	}
	if p.fail != nil {
		return store.Info{}, false, p.fail
	}
	r, _, err := from.Open(ctx, srcName)
	if err != nil {
		return store.Info{}, false, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Info{}, false, err
	}
	if p.change != nil {
		p.change(data)
	}
	p.copies.Add(1)
	info, err := p.Create(ctx, name, bytes.NewReader(data))
	return info, true, err
}

func TestStoresCopyBetweenThemselves(t *testing.T) {
	from, to := &provider{Store: mem.New()}, &provider{Store: mem.New()}
	inFrom, inTo := store.Prefix(store.Retry(from), "a/b"), store.Prefix(store.Retry(to), "c")
	fill(t, archive.New(inFrom), everyday...)
	c := newCopier(inFrom, inTo)
	c.Parallel = 1
	r := copyAll(t, c)
	if to.copies.Load() != int64(len(everyday)) || r.ByStores != len(everyday) || r.Copied != len(everyday) {
		t.Errorf("%d copies, %+v", to.copies.Load(), r)
	}
	same(t, inFrom, inTo)
}

func TestStoresThatCannotCopyBetweenThemselves(t *testing.T) {
	for name, c := range map[string]struct {
		from store.Store
		to   *provider
	}{
		"another kind": {mem.New(), &provider{Store: mem.New()}},
		"refusal":      {&provider{Store: mem.New()}, &provider{Store: mem.New(), fail: errors.New("another account")}},
	} {
		fill(t, archive.New(c.from), everyday...)
		if r := copyAll(t, newCopier(c.from, c.to)); r.ByStores != 0 || r.Copied != len(everyday) {
			t.Errorf("%s: %+v", name, r)
		}
		same(t, c.from, c.to)
	}
}

func TestWrongCopyBetweenStoresDoesNotCount(t *testing.T) {
	from, to := &provider{Store: mem.New()}, &provider{Store: mem.New()}
	ms := fill(t, archive.New(from), everyday...)
	to.change = func(b []byte) { b[len(b)/2] ^= 1 }
	c := newCopier(from, to)
	_, err := c.Do(t.Context(), plan(t, c))
	if !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), "read back") {
		t.Errorf("got %v", err)
	}
	if got := listed(t, to); got != "" {
		t.Errorf("%s count", got)
	}

	// The source is to blame if it is wrong too.
	to, name := &provider{Store: mem.New()}, "snapshots/"+ms[0].Name
	object := objects(t, from)[name]
	object[len(object)/2] ^= 1
	put(t, from.Store, name, object)
	c = newCopier(from, to)
	c.Parallel = 1
	for range 2 { // also of what the first one left
		r, err := c.Do(t.Context(), plan(t, c))
		if !errors.Is(err, archive.ErrCorrupt) || len(r.LeftOut) == 0 || r.LeftOut[0].Name != ms[0].Name {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	onlyOurStrays(t, to)
	if got, want := listed(t, to), "full 130, delta 131-140, delta 141-150"; got != want {
		t.Errorf("copied are %s, want %s", got, want)
	}
}

// sizer is a store that reads no further than the size it was told, twice.
type sizer struct{ store.Store }

func (s sizer) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	seeker, ok := r.(io.Seeker)
	if !ok {
		return store.Info{}, errors.New("cannot seek")
	}
	size, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return store.Info{}, err
	}
	data := make([]byte, size)
	for _, n := range []int64{size / 2, size} {
		if _, err := seeker.Seek(0, io.SeekStart); err != nil {
			return store.Info{}, err
		}
		if _, err := io.ReadFull(r, data[:n]); err != nil {
			return store.Info{}, err
		}
	}
	if _, err := seeker.Seek(size/2, io.SeekStart); err != nil {
		return store.Info{}, err
	}
	if _, err := io.ReadFull(r, data[size/2:]); err != nil {
		return store.Info{}, err
	}
	return s.Store.Create(ctx, name, bytes.NewReader(data))
}

func TestStoreThatReadsNoFurtherThanTheSize(t *testing.T) {
	from, to := mem.New(), mem.New()
	ms := fill(t, archive.New(from), everyday...)
	c := newCopier(from, sizer{to})
	var done int64
	c.Progress = func(d, _ int64) { done = d }
	p := plan(t, c)
	if _, err := c.Do(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	same(t, from, to)
	if done != p.MissingBytes {
		t.Errorf("progress ended with %d of %d", done, p.MissingBytes)
	}

	name := "snapshots/" + ms[0].Name
	object := objects(t, from)[name]
	object[0] ^= 1
	put(t, from, name, object)
	to = mem.New()
	c = newCopier(from, sizer{to})
	if _, err := c.Do(t.Context(), plan(t, c)); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, there := objects(t, to)[name]; there {
		t.Error("the damaged object was copied")
	}
}

// late is a store that finds out that a name is taken when it has read all.
type late struct{ store.Store }

func (l late) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Info{}, err
	}
	return l.Store.Create(ctx, name, bytes.NewReader(data))
}

func TestTakenByTheRightBytesMeanwhile(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, archive.New(from), everyday...)
	c := newCopier(from, late{to})
	var done int64
	c.Progress = func(d, _ int64) { done = d }
	p := plan(t, c)
	copyAll(t, newCopier(from, to))
	r, err := c.Do(t.Context(), p)
	if err != nil || r.Copied != 0 || r.Adopted != len(everyday) || done != p.MissingBytes {
		t.Errorf("got %+v, %v, progress ended with %d of %d", r, err, done, p.MissingBytes)
	}
}
