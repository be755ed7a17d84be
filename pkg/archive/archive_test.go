package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func full(revision int64) snapshot.Manifest {
	return snapshot.Manifest{Kind: snapshot.Full, First: revision, Last: revision, Time: noon, Lineage: "l", ClusterID: "c"}
}

func deltaOf(first, last int64) snapshot.Manifest {
	return snapshot.Manifest{Kind: snapshot.Delta, First: first, Last: last, Time: noon, Lineage: "l", ClusterID: "c"}
}

// content is text that compresses about as well as Kubernetes objects do.
func content(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh"[rng.IntN(8)]
	}
	return b
}

func save(t *testing.T, a *archive.Archive, m snapshot.Manifest, data []byte) snapshot.Manifest {
	t.Helper()
	m, err := a.Save(t.Context(), m, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func pack(t *testing.T, data []byte) *archive.Buffer {
	t.Helper()
	b, err := archive.NewBuffer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func read(ctx context.Context, a *archive.Archive, m snapshot.Manifest) ([]byte, error) {
	r, err := a.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func names(l archive.Listing) string {
	var b strings.Builder
	for _, m := range l.Manifests {
		b.WriteString(m.Name + " ")
	}
	return strings.TrimSpace(b.String())
}

func list(t *testing.T, a *archive.Archive) archive.Listing {
	t.Helper()
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSaveListOpenRemove(t *testing.T) {
	for _, size := range []int{1, 1 << 10, 9 << 20} {
		a := archive.New(mem.New())
		data := content(size)
		m := save(t, a, full(7), data)
		d, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, data))
		if err != nil {
			t.Fatal(err)
		}
		if l := list(t, a); names(l) != m.Name+" "+d.Name || len(l.Problems)+len(l.Strays)+l.Foreign > 0 {
			t.Fatalf("listed %+v", l)
		}
		for _, m := range []snapshot.Manifest{m, d} {
			if got, err := read(t.Context(), a, m); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v", m.Name, len(got), err)
			}
			if err := a.Remove(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if l := list(t, a); names(l) != "" || len(l.Strays) > 0 {
			t.Errorf("after removal: %+v", l)
		}
	}
}

func TestStoredObjectIsPlainZstd(t *testing.T) {
	s := mem.New()
	data := content(1 << 20)
	m := save(t, archive.New(s), full(7), data)
	r, _, err := s.Open(t.Context(), "snapshots/"+m.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := zstd.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := io.ReadAll(d); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFailingSourceStoresNothing(t *testing.T) {
	a := archive.New(mem.New())
	broken := errors.New("etcd went away")
	_, err := a.Save(t.Context(), full(7), io.MultiReader(bytes.NewReader(content(5<<20)), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if l := list(t, a); names(l) != "" || len(l.Strays) > 0 {
		t.Errorf("left behind: %+v", l)
	}
}

func TestSavingAgain(t *testing.T) {
	a := archive.New(mem.New())
	b := pack(t, content(1000))
	first, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), b)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), b); err != nil || again != first {
		t.Errorf("the same bytes under the same name: %v", err)
	}
	if _, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, content(1001))); !errors.Is(err, fs.ErrExist) {
		t.Errorf("other bytes under the same name: %v", err)
	}
	if _, err := a.Save(t.Context(), deltaOf(8, 9), strings.NewReader("x")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another stream under the same name: %v", err)
	}
	if got, err := read(t.Context(), a, first); err != nil || !bytes.Equal(got, content(1000)) {
		t.Errorf("the first is not what it was: %v", err)
	}
}

// objects returns the raw content of a container.
func objects(t *testing.T, s store.Store) map[string][]byte {
	t.Helper()
	infos, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, info := range infos {
		r, _, err := s.Open(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		all[info.Name], err = io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// container makes a store that holds objects.
func container(t *testing.T, objects map[string][]byte) store.Store {
	t.Helper()
	s := mem.New()
	for name, data := range objects {
		if _, err := s.Create(t.Context(), name, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestEveryFlippedByteIsFound changes each stored byte in turn, of the content
// and of the manifest.
func TestEveryFlippedByteIsFound(t *testing.T) {
	s := mem.New()
	m := save(t, archive.New(s), full(7), content(600))
	for name, data := range objects(t, s) {
		for i := range data {
			changed := objects(t, s)
			changed[name][i] ^= 1 << (i % 8)
			if damaged(t, container(t, changed), m) == nil {
				t.Errorf("%s: byte %d of %d flipped, nobody noticed", name, i, len(data))
			}
		}
		for n := range data {
			changed := objects(t, s)
			changed[name] = changed[name][:n]
			if damaged(t, container(t, changed), m) == nil {
				t.Errorf("%s: cut to %d of %d bytes, nobody noticed", name, n, len(data))
			}
		}
	}
}

// damaged returns what listing or reading says against m; it must name it.
func damaged(t *testing.T, s store.Store, m snapshot.Manifest) error {
	t.Helper()
	a := archive.New(s)
	var err error
	if l := list(t, a); len(l.Problems) == 1 {
		err = l.Problems[0].Err
	} else {
		_, err = read(t.Context(), a, m)
	}
	if err != nil && (!errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), m.Name)) {
		t.Errorf("damage is called %v", err)
	}
	return err
}

func TestSwappedAndMissingObjects(t *testing.T) {
	s := mem.New()
	a := archive.New(s)
	one := save(t, a, full(7), content(1000))
	two := save(t, a, full(8), content(1001))
	three := save(t, a, full(9), bytes.Repeat([]byte("x"), 1000))
	good := objects(t, s)
	object := func(m snapshot.Manifest) string { return "snapshots/" + m.Name }
	manifest := func(m snapshot.Manifest) string { return object(m) + ".json" }
	for name, change := range map[string]func(o map[string][]byte){
		"contents swapped":  func(o map[string][]byte) { o[object(one)], o[object(two)] = o[object(two)], o[object(one)] },
		"manifests swapped": func(o map[string][]byte) { o[manifest(one)], o[manifest(three)] = o[manifest(three)], o[manifest(one)] },
		"content missing":   func(o map[string][]byte) { delete(o, object(one)) },
		"both as if one":    func(o map[string][]byte) { o[manifest(one)] = o[manifest(two)]; o[object(one)] = o[object(two)] },
	} {
		changed := map[string][]byte{}
		maps.Copy(changed, good)
		change(changed)
		l := list(t, archive.New(container(t, changed)))
		found := false
		for _, p := range l.Problems {
			found = found || p.Name == one.Name && errors.Is(p.Err, archive.ErrCorrupt)
		}
		if !found {
			t.Errorf("%s: %+v", name, l)
		}
	}
	delete(good, manifest(one))
	if l := list(t, archive.New(container(t, good))); len(l.Strays) != 1 || l.Strays[0].Name != one.Name || len(l.Manifests) != 2 {
		t.Errorf("without its manifest: %+v", l)
	}
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	s := mem.New()
	for _, name := range []string{"snapshots/readme.txt", "snapshots/full-1.db.zst", "snapshots/a/b.json", "owner.json"} {
		if _, err := s.Create(t.Context(), name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if l := list(t, archive.New(s)); l.Foreign != 3 || len(l.Strays)+len(l.Problems)+len(l.Manifests) > 0 {
		t.Errorf("%+v", l)
	}
}
