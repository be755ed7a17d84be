package copier_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestCopyIsExact(t *testing.T) {
	from, to := mem.New(), mem.New()
	ms := fill(t, archive.New(from), everyday...)
	c := newCopier(from, to)
	var last, total int64
	c.Progress = func(d, n int64) { last, total = d, n }
	before := objects(t, from)
	p := plan(t, c)
	var bytes int64
	for _, m := range ms {
		bytes += m.StoredSize
	}
	if p.Count(copier.Missing) != len(ms) || p.MissingBytes != bytes {
		t.Errorf("planned are\n%s", p)
	}
	r, err := c.Do(t.Context(), p)
	if err != nil || r.Copied != len(ms) || r.CopiedBytes != bytes || r.Adopted+r.There != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if last != bytes || total != bytes {
		t.Errorf("progress ended with %d of %d, want %d", last, total, bytes)
	}
	same(t, from, to)
	if after := objects(t, from); len(after) != len(before) {
		t.Errorf("the source has %d objects, had %d", len(after), len(before))
	}
	if r := copyAll(t, c); r.Copied+r.Adopted != 0 || r.There != len(ms) || r.ThereBytes != bytes {
		t.Errorf("again: %+v", r)
	}
	if r, err := c.Do(t.Context(), p); err != nil || r.Copied != 0 || r.Adopted != len(ms) {
		t.Errorf("the old plan again: %+v, %v", r, err)
	}
}

// TestEveryMomentIsWhole looks at the destination after each manifest, while
// objects arrive in any order.
func TestEveryMomentIsWhole(t *testing.T) {
	words := append([]string{"full 50 of b", "delta 51-60 of b", "delta 55-58 of b"}, everyday...)
	words = append(words, "delta 115-125", "full 200 of b", "delta 201-220 of b")
	from := mem.New()
	ms := fill(t, archive.New(from), words...)
	to := newHooked()
	moments := 0
	to.after = func(name string) {
		if isManifest(name) {
			moments++
			l, err := archive.New(to.Store).List(t.Context())
			chains, gaps := snapshot.Chains(l.Manifests)
			if err != nil || len(chains) == 0 || len(l.Problems) > 0 {
				t.Errorf("after %s: %d chains, problems %v, %v", name, len(chains), l.Problems, err)
			}
			for _, g := range gaps {
				if !g.Bridged {
					t.Errorf("after %s: %v", name, g)
				}
			}
			for _, c := range chains {
				if _, err := snapshot.Select(l.Manifests, snapshot.Target{Revision: c.Last(), Lineage: c.Full.Lineage}); err != nil {
					t.Errorf("after %s: %v", name, err)
				}
			}
		}
	}
	copyAll(t, newCopier(from, to))
	if moments != len(ms) {
		t.Errorf("%d of %d manifests were seen", moments, len(ms))
	}
	same(t, from, to)
}

// TestCutOffAtEveryStep fails each creation in turn and copies again.
func TestCutOffAtEveryStep(t *testing.T) {
	from := mem.New()
	ms := fill(t, archive.New(from), everyday...)
	broken := errors.New("cut off")
	for step := range 1 + 2*len(ms) { // the announcement comes first
		to := newHooked()
		var mu sync.Mutex
		done := 0
		to.before = func(string) error {
			mu.Lock()
			defer mu.Unlock()
			done++
			if done > step {
				return broken
			}
			return nil
		}
		c := newCopier(from, to)
		if _, err := c.Do(t.Context(), plan(t, c)); !errors.Is(err, broken) {
			t.Fatalf("step %d: %v", step, err)
		}
		listed(t, to)
		onlyOurStrays(t, to)
		to.before = nil
		r := copyAll(t, c)
		if r.Copied+r.Adopted+r.There != len(ms) {
			t.Errorf("step %d: %+v", step, r)
		}
		same(t, from, to)
		for name, sent := range to.bytes {
			if isAnnouncement(name) {
				continue
			}
			if size := int64(len(objects(t, to)[name])); sent != size {
				t.Errorf("step %d: %d bytes were sent of the %d of %s", step, sent, size, name)
			}
		}
	}
}

func TestCancelled(t *testing.T) {
	from := mem.New()
	fill(t, archive.New(from), everyday...)
	to := newHooked()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("told to stop")
	to.before = func(name string) error {
		if isManifest(name) {
			cancel(stopped)
			return ctx.Err()
		}
		return nil
	}
	c := newCopier(from, to)
	if _, err := c.Do(ctx, plan(t, c)); !errors.Is(err, context.Canceled) && !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
	to.before = nil
	copyAll(t, c)
	same(t, from, to)
}

func TestPlanChangesNothing(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, archive.New(from), everyday...)
	text := plan(t, newCopier(from, to)).String()
	if len(objects(t, to)) > 0 {
		t.Error("something was stored")
	}
	for _, part := range []string{"to copy", "7 snapshots", "full-0000000000000100-"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

func TestEmptySource(t *testing.T) {
	if _, err := newCopier(mem.New(), mem.New()).Plan(t.Context()); !errors.Is(err, snapshot.ErrNothing) {
		t.Errorf("got %v", err)
	}
}

func TestStoreThatFailsOnce(t *testing.T) {
	from := mem.New()
	ms := fill(t, archive.New(from), everyday...)
	to := newHooked()
	var mu sync.Mutex
	failed := map[string]bool{}
	to.before = func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		if first := !failed[name]; first {
			failed[name] = true
			return errors.New("connection lost")
		}
		return nil
	}
	retry := store.Retry(to)
	retry.Base = time.Millisecond
	r := copyAll(t, newCopier(from, retry))
	if r.Copied != len(ms) {
		t.Errorf("got %+v", r)
	}
	same(t, from, to)
}

func TestMissingContainers(t *testing.T) {
	c := newCopier(missing{mem.New()}, mem.New())
	if _, err := c.Plan(t.Context()); !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no source: %v", err)
	}
	from := mem.New()
	fill(t, archive.New(from), everyday...)
	if p := plan(t, newCopier(from, missing{mem.New()})); p.Count(copier.Missing) != len(everyday) {
		t.Errorf("no destination yet:\n%s", p)
	}
}

// missing is a store that is not there.
type missing struct{ store.Store }

func (missing) List(context.Context, string) ([]store.Info, error) { return nil, store.ErrNoContainer }
