package robust

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// storm is what happens to both lines of a copy when a share of its bytes has
// been copied, until a time is over or the copy has ended.
type storm struct {
	source, destination storeservers.Toxic
	after               float64
	lasts               time.Duration
}

var storms = map[string]storm{
	"silent for 5 s":  {toxic("timeout", down, "timeout", 0), toxic("timeout", up, "timeout", 0), 0.3, blackout},
	"refused for 5 s": {toxic("reset_peer", up, "timeout", 0), toxic("reset_peer", up, "timeout", 0), 0.3, blackout},
	"reset":           {toxic("reset_peer", down, "timeout", 0), toxic("reset_peer", up, "timeout", 0), 0.6, 300 * time.Millisecond},
	"downloads cut, uploads slow": {
		toxic("limit_data", down, "bytes", piece/2), toxic("latency", up, "latency", 50), 0, time.Minute,
	},
}

// TestCopiesOverBadLines copies a chain from each server to another one while
// both lines are bad. The copy finishes, or fails with an error after which it
// can be repeated; what counts at the destination is whole at any time.
func TestCopiesOverBadLines(t *testing.T) {
	t.Parallel()
	s := startServers(t)
	all := s.providers()
	type pair struct{ from, to string }
	ring := map[string]pair{}
	for _, p := range []pair{{"versitygw", "minio"}, {"minio", "fake-gcs-server"}, {"fake-gcs-server", "azurite"}, {"azurite", "versitygw"}} {
		ring[p.from+" to "+p.to] = p
	}
	beside(t, ring, func(t *testing.T, p pair) {
		beside(t, storms, func(t *testing.T, b storm) { s.copyIn(t, b, all[p.from](t), all[p.to](t)) })
	})
}

func (s *servers) copyIn(t *testing.T, b storm, from, to shore) {
	t.Helper()
	want := chain(t, archive.New(from.direct))
	c := copier.New(archive.New(store.Retry(from.across)), archive.New(store.Retry(to.across)))
	c.Log = slog.New(slog.DiscardHandler)
	begins, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.Progress = func(done, total int64) { // never two at a time
		if begins != nil && float64(done) >= b.after*float64(total) {
			close(begins)
			begins = nil
		}
	}
	go func(begins <-chan struct{}) {
		defer close(ended)
		<-begins
		healSource, healDestination := s.toxi.Suffer(t, from.line, b.source), s.toxi.Suffer(t, to.line, b.destination)
		select {
		case <-time.After(b.lasts):
		case <-over:
		}
		healSource()
		healDestination()
	}(begins)
	if err := copyOnce(t, c, to); err != nil {
		t.Log(err)
		wantClear(t, err, "copy", to.direct)
		<-ended
		if err := copyOnce(t, c, to); err != nil {
			t.Errorf("over lines that are good again: %v", err)
		}
	}
	close(over)
	<-ended
	wantCopies(t, to, want)
}

// chain stores a full that is sent in pieces, and deltas.
func chain(t *testing.T, a *archive.Archive) (all []snapshot.Manifest) {
	t.Helper()
	m := snapshot.Manifest{Kind: snapshot.Full, First: 100, Last: 100, Time: time.Now().Truncate(time.Second), Lineage: "a", ClusterID: "c"}
	size := int64(3*piece + 123)
	for range 4 {
		saved, err := a.Save(t.Context(), m, noise(size))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, saved)
		m.Kind, m.First, m.Last, m.Parent = snapshot.Delta, m.Last+1, m.Last+10, saved.Name
		m.Time, size = m.Time.Add(time.Minute), piece/5
	}
	return all
}

// copyOnce copies, and looks at the destination however that ended.
func copyOnce(t *testing.T, c *copier.Copier, to shore) error {
	t.Helper()
	plan, err := c.Plan(t.Context())
	if err == nil {
		_, err = c.Do(t.Context(), plan)
	}
	wantWhole(t, to)
	return err
}

// wantWhole reads all that counts.
func wantWhole(t *testing.T, sh shore) []snapshot.Manifest {
	t.Helper()
	a := archive.New(sh.direct)
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l.Problems {
		t.Errorf("%s: %v", p.Name, p.Err)
	}
	for _, m := range l.Manifests {
		body, err := a.OpenStored(t.Context(), m)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		body.Close()
	}
	return l.Manifests
}

func wantCopies(t *testing.T, to shore, want []snapshot.Manifest) {
	t.Helper()
	got := wantWhole(t, to)
	if len(got) != len(want) {
		t.Fatalf("%d snapshots are there, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Name != want[i].Name || got[i].StoredSHA256 != want[i].StoredSHA256 {
			t.Errorf("there is %s with %s, want %s with %s", got[i].Name, got[i].StoredSHA256, want[i].Name, want[i].StoredSHA256)
		}
		if n := to.unfinished(t, "snapshots/"+want[i].Name); n != 0 {
			t.Errorf("%d unfinished uploads of %s are left", n, want[i].Name)
		}
	}
}
