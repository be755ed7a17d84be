package copier_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestDamagedSource(t *testing.T) {
	for damagedWords, want := range map[string]string{
		"full 100":      "full 130, delta 131-140, delta 141-150",
		"delta 111-120": "full 100, delta 101-110, full 130, delta 131-140, delta 141-150",
		"delta 131-140": "full 100, delta 101-110, delta 111-120, delta 121-130, full 130",
		"full 130":      "full 100, delta 101-110, delta 111-120, delta 121-130, delta 131-140, delta 141-150",
	} {
		t.Run(damagedWords, func(t *testing.T) {
			from, to := mem.New(), mem.New()
			var bad snapshot.Manifest
			for _, m := range fill(t, archive.New(from), everyday...) {
				if short(m) == damagedWords {
					bad = m
				}
			}
			object := objects(t, from)["snapshots/"+bad.Name]
			object[len(object)/2] ^= 1
			put(t, from, "snapshots/"+bad.Name, object)
			c := newCopier(from, to)
			r, err := c.Do(t.Context(), plan(t, c))
			if !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), bad.Name) || len(r.LeftOut) == 0 || r.LeftOut[0].Name != bad.Name {
				t.Errorf("got %+v, %v", r, err)
			}
			if got := listed(t, to); got != want {
				t.Errorf("copied are %s, want %s", got, want)
			}
			if _, there := objects(t, to)["snapshots/"+bad.Name]; there {
				t.Error("the damaged object was copied")
			}
			object[len(object)/2] ^= 1 // mended
			put(t, from, "snapshots/"+bad.Name, object)
			copyAll(t, c)
			same(t, from, to)
		})
	}
}

func TestDamagedManifestInTheSource(t *testing.T) {
	from, to := mem.New(), mem.New()
	ms := fill(t, archive.New(from), everyday...)
	name := "snapshots/" + ms[2].Name
	manifest := objects(t, from)[name+".json"]
	manifest[10] ^= 1
	put(t, from, name+".json", manifest)
	c := newCopier(from, to)
	p := plan(t, c)
	if err := p.Err(); !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), ms[2].Name) {
		t.Errorf("the plan says %v", err)
	}
	if _, err := c.Do(t.Context(), p); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if got, want := listed(t, to), "full 100, delta 101-110, full 130, delta 131-140, delta 141-150"; got != want {
		t.Errorf("copied are %s, want %s", got, want)
	}
}

func TestGapInTheSource(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, archive.New(from), "full 100", "delta 101-110", "delta 121-130")
	c := newCopier(from, to)
	p := plan(t, c)
	if _, err := c.Do(t.Context(), p); !errors.Is(err, snapshot.ErrGap) || !errors.Is(p.Err(), snapshot.ErrGap) {
		t.Errorf("got %v, the plan says %v", err, p.Err())
	}
	if got, want := listed(t, to), "full 100, delta 101-110"; got != want {
		t.Errorf("copied are %s, want %s", got, want)
	}
}

func TestBridgedGapLosesNothing(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, archive.New(from), "full 100", "delta 101-110", "delta 121-130", "full 130", "delta 131-140")
	r := copyAll(t, newCopier(from, to))
	if got, want := listed(t, to), "full 100, delta 101-110, full 130, delta 131-140"; got != want || len(r.LeftOut) != 1 {
		t.Errorf("copied are %s, want %s; left out %+v", got, want, r.LeftOut)
	}
}

func TestSomethingInTheWay(t *testing.T) {
	from := mem.New()
	ms := fill(t, archive.New(from), everyday...)
	good := objects(t, from)
	name := "snapshots/" + ms[3].Name
	other := bytes.Clone(good[name])
	other[5] ^= 1
	for what, way := range map[string]struct {
		object, manifest []byte
		class            error
	}{
		"stray of another size": {object: other[1:], class: copier.ErrTaken},
		"stray of other bytes":  {object: other, class: copier.ErrTaken},
		"damaged copy":          {object: other[1:], manifest: good[name+".json"], class: archive.ErrCorrupt},
	} {
		t.Run(what, func(t *testing.T) {
			to := mem.New()
			put(t, to, name, way.object)
			if way.manifest != nil {
				put(t, to, name+".json", way.manifest)
			}
			c := newCopier(from, to)
			p, err := c.Plan(t.Context())
			if err == nil {
				_, err = c.Do(t.Context(), p)
			}
			if !errors.Is(err, way.class) || !strings.Contains(err.Error(), ms[3].Name) || !strings.Contains(err.Error(), "remove") {
				t.Errorf("got %v", err)
			}
			if !bytes.Equal(objects(t, to)[name], way.object) {
				t.Error("what was there was changed")
			}
		})
	}
}

func TestAnotherSnapshotOfTheName(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, archive.New(from), "full 100")
	if _, err := archive.New(to).Save(t.Context(), described(t, 0, "full 100 of b"), strings.NewReader("other")); err != nil {
		t.Fatal(err)
	}
	if _, err := newCopier(from, to).Plan(t.Context()); !errors.Is(err, copier.ErrTaken) {
		t.Errorf("got %v", err)
	}
}

func TestStrayOfTheRightBytesIsAdopted(t *testing.T) {
	from, to := mem.New(), newHooked()
	ms := fill(t, archive.New(from), everyday...)
	name := "snapshots/" + ms[0].Name
	put(t, to.Store, name, objects(t, from)[name])
	r := copyAll(t, newCopier(from, to))
	if r.Adopted != 1 || r.AdoptedBytes != ms[0].StoredSize || r.Copied != len(ms)-1 || to.calls[name] != 0 {
		t.Errorf("got %+v, it was sent %d times", r, to.calls[name])
	}
	same(t, from, to)
}

func TestRemovedFromTheSourceMeanwhile(t *testing.T) {
	from, to := mem.New(), mem.New()
	ms := fill(t, archive.New(from), everyday...)
	c := newCopier(from, to)
	p := plan(t, c)
	if err := archive.New(from).Remove(t.Context(), ms[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), p); !errors.Is(err, copier.ErrGone) || errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	listed(t, to)
}

func TestReplacedInTheSourceMeanwhile(t *testing.T) {
	from, to := mem.New(), mem.New()
	ms := fill(t, archive.New(from), everyday...)
	c := newCopier(from, to)
	p := plan(t, c)
	if err := archive.New(from).Remove(t.Context(), ms[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.New(from).Save(t.Context(), ms[2], strings.NewReader("another")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), p); !errors.Is(err, copier.ErrGone) {
		t.Errorf("got %v", err)
	}
	listed(t, to)
}
