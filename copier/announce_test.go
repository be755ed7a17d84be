package copier_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func list(t *testing.T, s store.Store) archive.Listing {
	t.Helper()
	l, err := archive.New(s).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// onlyOurStrays fails if there is an object without a manifest that was not
// announced.
func onlyOurStrays(t *testing.T, s store.Store) {
	t.Helper()
	l := list(t, s)
	for _, stray := range l.Strays {
		if !l.Incoming(stray.Name) {
			t.Errorf("%s has no manifest and was not announced", stray.Name)
		}
	}
}

// cutOff copies until the first manifest.
func cutOff(t *testing.T, c *copier.Copier, to *hooked) {
	t.Helper()
	cut := errors.New("cut off")
	to.before = func(name string) error {
		if isManifest(name) {
			return cut
		}
		return nil
	}
	if _, err := c.Do(t.Context(), plan(t, c)); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	to.before = nil
}

func TestAnnouncementsAreWithdrawn(t *testing.T) {
	from, to := mem.New(), newHooked()
	fill(t, archive.New(from), everyday...)
	c := newCopier(from, to)
	cutOff(t, c, to)
	if l := list(t, to); len(l.Announcements) != 1 || len(l.Announcements[0].Names) != len(everyday) || len(l.Strays) == 0 {
		t.Errorf("a copy that was cut off left %d strays, announced: %+v", len(l.Strays), l.Announcements)
	}
	cutOff(t, c, to)
	if l := list(t, to); len(l.Announcements) != 1 {
		t.Errorf("announced again: %+v", l.Announcements)
	}
	copyAll(t, c)
	same(t, from, to)
}

// TestCopyOfAPartLeavesTheAnnouncement: what is cut off elsewhere is not finished.
func TestCopyOfAPartLeavesTheAnnouncement(t *testing.T) {
	from, to := mem.New(), newHooked()
	fill(t, archive.New(from), append([]string{"full 50 of b"}, everyday...)...)
	c := newCopier(from, to)
	c.Parallel = 1
	cutOff(t, c, to) // the stray is of b
	c.Selection.Lineage = "a"
	copyAll(t, c)
	if l := list(t, to); len(l.Announcements) != 1 || len(l.Manifests) != len(everyday) {
		t.Errorf("%d manifests, announced: %+v", len(l.Manifests), l.Announcements)
	}
	onlyOurStrays(t, to)
	c.Selection.Lineage = ""
	copyAll(t, c)
	same(t, from, to)
}

// TestStrayOfAnotherStaysDoubtful: what was there before nobody announced.
func TestStrayOfAnotherStaysDoubtful(t *testing.T) {
	from, to := mem.New(), newHooked()
	ms := fill(t, archive.New(from), everyday...)
	name := ms[len(ms)-1].Name
	put(t, to.Store, "snapshots/"+name, objects(t, from)["snapshots/"+name])
	c := newCopier(from, to)
	cutOff(t, c, to)
	if l := list(t, to); l.Incoming(name) || !l.Incoming(ms[0].Name) {
		t.Errorf("announced: %+v", l.Announcements)
	}
	copyAll(t, c)
	same(t, from, to)
}

func TestAnnouncementThatCannotBeRemoved(t *testing.T) {
	from, to := mem.New(), locked{mem.New()}
	ms := fill(t, archive.New(from), everyday...)
	c := newCopier(from, to)
	for range 2 {
		copyAll(t, c)
		if l := list(t, to); len(l.Manifests) != len(ms) || len(l.Announcements) != 1 || l.Foreign > 0 {
			t.Errorf("listed are %+v", l)
		}
	}
	for name, data := range objects(t, from) {
		if !bytes.Equal(objects(t, to)[name], data) {
			t.Errorf("%s differs", name)
		}
	}
}

// locked is a store that removes nothing.
type locked struct{ store.Store }

func (locked) Remove(context.Context, string) error { return errors.New("retention policy") }
