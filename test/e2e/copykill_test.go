package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// TestKilledCopies kills 200 copies at random moments, each time until one comes
// through, and looks at the destination after each kill.
func TestKilledCopies(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, flag := newStore(t)
	backUp(t, source, flag, 8)
	versity := storeservers.StartVersityGW(t)
	for i, lane := range []struct {
		name  string
		to    place
		kills int
	}{
		{"file", place{url: "file://" + t.TempDir()}, 60},
		{"s3", bucket(t, versity), 40},
		{"file at the same time", place{url: "file://" + t.TempDir()}, 60},
		{"s3 at the same time", bucket(t, versity), 40},
	} {
		t.Run(lane.name, func(t *testing.T) {
			t.Parallel()
			v := &victim{source: source, from: place{url: "file://" + dir}, base: lane.to, whole: read(t, file.New(dir))}
			for v.killed < lane.kills {
				v.round++
				v.run(t, lane.kills)
			}
			if i < 2 {
				checkRestored(t, source, v.to, true)
			}
		})
	}
}

// victim is a copy that is killed.
type victim struct {
	source *etcdtest.Etcd
	from   place
	base   place             // each round has a prefix of it
	whole  map[string]string // the objects in from
	killed int
	round  int
	took   time.Duration // the last copy that nobody killed, in all its pieces

	// Of a round:
	to    place
	store store.Store
	seen  map[string]store.Info // objects
	read  map[string]bool       // snapshots whose content was right
	left  []string              // snapshots without an object
}

// run kills copies until one comes through.
func (v *victim) run(t *testing.T, kills int) {
	t.Helper()
	v.to = v.base.in(fmt.Sprintf("round-%d", v.round))
	v.store = v.to.open(t)
	v.seen, v.read = map[string]store.Info{}, map[string]bool{}
	for {
		v.look(t)
		life := runTimeout
		if v.round > 1 && v.killed < kills { // the first one tells how long it takes
			life = time.Duration((0.1 + rand.Float64()) * float64(v.took))
		}
		began := time.Now()
		out, whole := v.copy(t, life)
		if whole {
			v.took = max(v.took/2, time.Since(began))
			v.finished(t, out)
			return
		}
		v.killed++
	}
}

// copy runs a copy and kills it when its life is over. It reports whether the copy
// was faster, and what it said.
func (v *victim) copy(t *testing.T, life time.Duration) (stdout string, whole bool) {
	t.Helper()
	cmd := command(t.Context(), copying(v.from, v.to, "--bandwidth=16MiB")...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("a copy failed: %v\n%s", err, log.String())
	}
	return out.String(), cmd.ProcessState.Success()
}

// finished checks that the last copy has sent only what was not there, and that
// all is there now.
func (v *victim) finished(t *testing.T, stdout string) {
	t.Helper()
	var missing int64
	for _, name := range v.left {
		missing += int64(len(v.whole["snapshots/"+name]))
	}
	r := decode[copied](t, outcome{stdout: stdout})
	// A server may finish what it got from a client that is dead, after the look.
	late := strings.HasPrefix(v.to.url, "s3:") && r.Copied < len(v.left) && r.CopiedBytes < missing
	exact := r.Copied == len(v.left) && r.CopiedBytes == missing
	if !exact && !late || r.Copied+r.Adopted+r.There != len(v.whole)/2 {
		t.Errorf("%d snapshots of %d bytes were missing: %+v", len(v.left), missing, r)
	}
	if now := read(t, v.store); !maps.Equal(now, v.whole) {
		t.Errorf("%d objects were to be copied, there are %d, or others", len(v.whole), len(now))
	}
}

// look checks what a killed copy left: what counts is right, leads from a full on
// without a hole, and can be restored as it is.
func (v *victim) look(t *testing.T) {
	t.Helper()
	v.compare(t)
	a := archive.New(v.store)
	l, err := a.List(t.Context())
	if errors.Is(err, store.ErrNoContainer) {
		l, err = archive.Listing{}, nil
	}
	chains, gaps := snapshot.Chains(l.Manifests)
	if err != nil || len(gaps)+len(l.Problems)+l.Foreign > 0 {
		t.Errorf("after a kill: %v, gaps %v, problems %v, %d foreign objects", err, gaps, l.Problems, l.Foreign)
	}
	for _, m := range l.Manifests {
		if !v.read[m.Name] {
			v.read[m.Name] = true
			checkContent(t, a, m)
		}
	}
	plan, err := restorer.NewPlan(l, restorer.Options{})
	if len(l.Manifests) == 0 {
		if nothing := errors.Is(err, snapshot.ErrNothing); nothing != (len(l.Announcements)+len(l.Strays) == 0) {
			t.Errorf("a restore of what has just begun to arrive says %v", err)
		}
		return
	}
	if err != nil || len(chains) == 0 || plan.Chain.Last() != chains[len(chains)-1].Last() {
		t.Errorf("what is there cannot be restored: %v, the chains are %v", err, chains)
		return
	}
	if rand.IntN(20) == 0 { // each time would take long
		v.restore(t, plan.Chain.Last())
	}
}

// restore restores what is there, to the revision that the chain ends at, and
// compares the hash with the one of the source.
func (v *victim) restore(t *testing.T, revision int64) {
	t.Helper()
	dataDir := filepath.Join(t.TempDir(), "etcd")
	must(t, on(v.to, "restore", "--data-dir="+dataDir)...)
	hash, compacted := v.source.HashKV(t, revision)
	if got, err := restorer.Hash(t.Context(), dataDir, revision, compacted); err != nil || got.Hash != hash {
		t.Errorf("at revision %d the hash is %+v (%v), want %x", revision, got, err, hash)
	}
}

// compare fails if an object was written again or is gone, and finds out which
// snapshots have none yet.
func (v *victim) compare(t *testing.T) {
	t.Helper()
	infos, err := v.store.List(t.Context(), "snapshots/")
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		t.Fatal(err)
	}
	now := map[string]store.Info{}
	for _, info := range infos {
		if !strings.HasPrefix(info.Name, "snapshots/incoming-") { // which the end of a copy removes
			now[info.Name] = info
		}
	}
	for name, before := range v.seen {
		if after := now[name]; after.Version != before.Version || !after.Modified.Equal(before.Modified) {
			t.Errorf("%s was written again or removed: %+v, before %+v", name, after, before)
		}
	}
	v.seen, v.left = now, nil
	for name := range v.whole {
		if _, there := now[name]; !there && !strings.HasSuffix(name, ".json") {
			v.left = append(v.left, strings.TrimPrefix(name, "snapshots/"))
		}
	}
}

func checkContent(t *testing.T, a *archive.Archive, m snapshot.Manifest) {
	t.Helper()
	r, err := a.Open(t.Context(), m)
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
}

// read returns all objects.
func read(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	infos, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, info := range infos {
		r, _, err := s.Open(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		all[info.Name] = string(data)
	}
	return all
}

// open returns the store of a directory or an S3 bucket.
func (p place) open(t *testing.T) store.Store {
	t.Helper()
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "file" {
		return file.New(u.Path)
	}
	s, err := s3.New(s3.Config{
		Bucket: u.Host, Endpoint: u.Query().Get("endpoint"), PathStyle: true,
		CAFile: u.Query().Get("caFile"), CredentialsDir: p.credentials,
	})
	if err != nil {
		t.Fatal(err)
	}
	return store.Prefix(s, strings.TrimPrefix(u.Path, "/"))
}
