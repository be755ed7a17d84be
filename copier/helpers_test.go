package copier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// described returns a manifest from words such as "full 100", "delta 101-120" or
// "full 7 of b", the nth a minute later than the one before.
func described(t *testing.T, n int, words string) snapshot.Manifest {
	t.Helper()
	words, lineage, other := strings.Cut(words, " of ")
	if !other {
		lineage = "a"
	}
	m := snapshot.Manifest{Time: noon.Add(time.Duration(n) * time.Minute), Lineage: lineage, ClusterID: "c"}
	var err error
	if strings.HasPrefix(words, "full") {
		m.Kind = snapshot.Full
		_, err = fmt.Sscanf(words, "full %d", &m.First)
		m.Last = m.First
	} else {
		m.Kind = snapshot.Delta
		_, err = fmt.Sscanf(words, "delta %d-%d", &m.First, &m.Last)
	}
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return m
}

// fill stores what words describe.
func fill(t *testing.T, a *archive.Archive, words ...string) []snapshot.Manifest {
	t.Helper()
	var ms []snapshot.Manifest
	for i, w := range words {
		m := described(t, i, w)
		if i > 0 {
			m.Parent = ms[i-1].Name
		}
		m, err := a.Save(t.Context(), m, bytes.NewReader(noise(uint64(i), 10_000+i)))
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

// noise does not compress.
func noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// everyday is a history of two chains.
var everyday = []string{
	"full 100", "delta 101-110", "delta 111-120", "delta 121-130", "full 130", "delta 131-140", "delta 141-150",
}

func newCopier(from, to store.Store) *copier.Copier {
	c := copier.New(archive.New(from), archive.New(to))
	c.Log = slog.New(slog.DiscardHandler)
	return c
}

func plan(t *testing.T, c *copier.Copier) copier.Plan {
	t.Helper()
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// copyAll plans and copies.
func copyAll(t *testing.T, c *copier.Copier) copier.Result {
	t.Helper()
	r, err := c.Do(t.Context(), plan(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// objects returns the raw content of a store.
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

// put replaces an object.
func put(t *testing.T, s store.Store, name string, data []byte) {
	t.Helper()
	if err := s.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), name, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, from, to store.Store) {
	t.Helper()
	a, b := objects(t, from), objects(t, to)
	for name, data := range a {
		if !bytes.Equal(b[name], data) {
			t.Errorf("%s: %d bytes in the source, %d in the copy, or others", name, len(data), len(b[name]))
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d objects in the source, %d in the copy", len(a), len(b))
	}
}

// listed returns the names in a store, and fails if what it lists has a hole.
func listed(t *testing.T, s store.Store) string {
	t.Helper()
	l, err := archive.New(s).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l.Problems {
		t.Errorf("problem: %v", p.Err)
	}
	chains, gaps := snapshot.Chains(l.Manifests)
	for _, g := range gaps {
		if !g.Bridged { // those that are lead nowhere, and a full goes on after them
			t.Errorf("gap: %v", g)
		}
	}
	if len(l.Manifests) > 0 && len(chains) == 0 {
		t.Errorf("only deltas: %+v", l.Manifests)
	}
	var words []string
	for _, m := range l.Manifests {
		words = append(words, short(m))
	}
	return strings.Join(words, ", ")
}

func short(m snapshot.Manifest) string {
	text := fmt.Sprintf("full %d", m.First)
	if m.Kind == snapshot.Delta {
		text = fmt.Sprintf("delta %d-%d", m.First, m.Last)
	}
	if m.Lineage != "a" {
		text += " of " + m.Lineage
	}
	return text
}

func isAnnouncement(name string) bool { return strings.HasPrefix(name, "snapshots/incoming-") }

func isManifest(name string) bool { return strings.HasSuffix(name, ".json") && !isAnnouncement(name) }

// hooked is a store whose creations can be watched and made to fail.
type hooked struct {
	store.Store
	mu     sync.Mutex
	before func(name string) error
	after  func(name string)
	bytes  map[string]int64 // taken, by name
	calls  map[string]int   // by name
}

func newHooked() *hooked {
	return &hooked{Store: mem.New(), bytes: map[string]int64{}, calls: map[string]int{}}
}

func (h *hooked) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	h.mu.Lock()
	h.calls[name]++
	h.mu.Unlock()
	if h.before != nil {
		if err := h.before(name); err != nil {
			return store.Info{}, err
		}
	}
	info, err := h.Store.Create(ctx, name, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes[name] += info.Size
	if err == nil && h.after != nil {
		h.after(name)
	}
	return info, err
}
