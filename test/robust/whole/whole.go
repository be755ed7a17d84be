// Package whole looks whether a container is what it must be at every moment,
// whoever was killed there and when.
package whole

import (
	"errors"
	"io"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// Through fails the test unless what is listed is sound to the byte, leads
// without a gap to its end, other than pruning leaves in the past, and holds no
// revision twice. It returns that end, 0 if nothing is stored.
func Through(t testing.TB, s store.Store) int64 {
	t.Helper()
	a := archive.New(s)
	l, err := a.List(t.Context())
	if errors.Is(err, store.ErrNoContainer) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l.Problems {
		t.Errorf("%s: %v", p.Name, p.Err)
	}
	_, gaps := snapshot.Chains(l.Manifests)
	for _, g := range gaps {
		if !g.Bridged {
			t.Error(g)
		}
	}
	wantEachOnce(t, l.Manifests)
	chain, err := snapshot.Select(l.Manifests, snapshot.Target{})
	if errors.Is(err, snapshot.ErrNothing) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range chain.All() {
		readThrough(t, a, m)
	}
	return chain.Last()
}

// wantEachOnce fails if two deltas of a history hold the same revision.
func wantEachOnce(t testing.TB, inOrder []snapshot.Manifest) {
	t.Helper()
	last := map[string]snapshot.Manifest{}
	for _, m := range inOrder {
		if m.Kind != snapshot.Delta {
			continue
		}
		if before, there := last[m.Lineage]; there && m.First <= before.Last {
			t.Errorf("%s and %s hold the same revisions", before.Name, m.Name)
		}
		last[m.Lineage] = m
	}
}

func readThrough(t testing.TB, a *archive.Archive, m snapshot.Manifest) {
	t.Helper()
	r, err := a.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if m.Kind == snapshot.Full {
		_, err = io.Copy(io.Discard, r)
	} else {
		err = decode(r)
	}
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
}

func decode(r io.Reader) error {
	for d := delta.NewDecoder(r); ; {
		if _, err := d.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
