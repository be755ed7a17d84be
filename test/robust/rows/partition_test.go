package rows

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const readErrors = `etcd_ferry_sync_object_reads_total{result="error"}`

// TestRow19CutForLessThanALease: doubt alone never fences.
func TestRow19CutForLessThanALease(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	across, line := net.bucket(t).through()
	a := deploy(t, "a", across).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 500)
	pid, errors := m.etcd(), m.metric(t, readErrors)
	heal := net.cut(t, line)
	eventually(t, "two reads fail", func() bool { return m.metric(t, readErrors) >= errors+2 })
	if status, p := m.progress(t, ""); status != http.StatusOK || p.Role != server.Owner || p.LastError == "" {
		t.Errorf("while the store is away: %d %+v", status, p)
	}
	if status, body := ask(t, http.MethodGet, m.url("/healthz")); status != http.StatusOK {
		t.Errorf("while the store is away: %d %s", status, body)
	}
	onA.more(t, 100)
	heal()
	eventually(t, "reads succeed", func() bool { _, p := m.progress(t, ""); return p.LastError == "" })
	onA.more(t, 100)
	if now := m.etcd(); now != pid || m.Restarts("etcd") != 0 {
		t.Errorf("etcd was process %d, is %d now", pid, now)
	}
	if !strings.Contains(m.Log("sidecar"), "level=WARN") {
		t.Error("not a word of it in the log")
	}
	onA.stop()
	onA.wantKept(t, a)
}

// TestRow19CutForLongerThanALease: an owner that cannot know is none, and is one
// again when it knows.
func TestRow19CutForLongerThanALease(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	across, line := net.bucket(t).through()
	a := deploy(t, "a", across, hastily, withKillBudget).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 500)
	cut := time.Now()
	heal := net.cut(t, line)
	a.until(server.SelfFenced)
	eventually(t, "etcd is dead", func() bool { return m.etcd() == 0 })
	onA.wantNothingAfter(t, cut.Add(hasteLease+killBudget))
	onA.refused(t)
	if status, _ := ask(t, http.MethodGet, m.url("/healthz")); status != http.StatusServiceUnavailable {
		t.Errorf("self-fenced, and /healthz answers %d", status)
	}
	eventually(t, "the status is out of date", func() bool {
		status, p := m.progress(t, "")
		return status == http.StatusServiceUnavailable && p.LeaseRemaining == 0
	})
	a.wantDown()
	heal()
	a.ready()
	onA.more(t, 300)
	onA.stop()
	onA.wantKept(t, a)
}

// TestRow20And21ForcedAndBack: a source that is cut off, a destination that
// decides without it, and the source's return.
func TestRow20And21ForcedAndBack(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	a := deploy(t, "a", across, hastily).ready()
	onA := writeTo(t, a)
	onA.more(t, 1_000)
	eventually(t, "something is stored", func() bool { return stored(t, across) > 0 })
	heal := net.cut(t, line)

	b := newDeployment(t, "b", net.bucket(t).at(net.server.URL), 1)
	b.Pace = hasty
	source := *a
	source.Store = in.at(net.server.URL)
	listen := freeAddress(t)
	copying := source.copyTo("b", b.Store, "--listen", listen)
	eventually(t, "the destination is done", func() bool {
		status, _ := ask(t, http.MethodGet, "http://"+listen+"/healthz")
		return status == http.StatusOK
	})
	if _, body := ask(t, http.MethodGet, "http://"+listen+"/metrics"); !strings.Contains(body, "etcd_ferry_copy_lossy 1\n") {
		t.Errorf("no metric says that it is lossy:\n%s", grep(body, "etcd_ferry_copy"))
	}
	copying.process.Signal(syscall.SIGTERM)
	done := copying.want(6, "LOSSY").outcome()
	o := source.Store.object(t)
	if !done.Lossy || !o.Decision.Forced || !o.Decision.Lossy || o.Decision.By != syncobject.Destination || o.Owner.ID != "b" {
		t.Errorf("%+v, %+v", done, o)
	}

	onB := writeTo(t, b.takeOver())
	onB.more(t, 300)
	onA.wantBefore(t, onB)
	onA.wantKeptThrough(t, b, done.ThroughRevision)
	if r := b.revision(t); r < 1_000_000_000 {
		t.Errorf("revision %d: clients of before are not told", r)
	}

	heal()
	a.until(server.Ceded)
	wantLate(t, source.Store, done.ThroughRevision)
	onA.stop()
	onB.more(t, 100)
	onA.wantKept(t, b)
	a.wantDown()
	t.Log(onA, onB, done.ThroughRevision)
}

// wantLate waits until what a forced hand-over lacks is filed, and looks that
// nobody restores it.
func wantLate(t *testing.T, in container, through int64) {
	t.Helper()
	late := archive.New(store.Prefix(in.direct, "late"))
	eventually(t, "the late writes are filed", func() bool {
		l, err := late.List(t.Context())
		return err == nil && len(l.Manifests) == 1 && l.Manifests[0].Last > through
	})
	l, err := in.archive().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Manifests {
		if m.Final {
			t.Errorf("%s is listed, at revision %d", m.Name, m.Last)
		}
	}
}

// stored returns the revision that a container has snapshots up to.
func stored(t *testing.T, in container) (last int64) {
	t.Helper()
	l, err := in.archive().List(t.Context())
	if err != nil {
		return 0 // nothing was written yet
	}
	for _, m := range l.Manifests {
		last = max(last, m.Last)
	}
	return last
}

func grep(text, word string) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, word) }), "")
}

// TestRow22SourceReturnsBeforeW: then the lossless path wins.
func TestRow22SourceReturnsBeforeW(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	a := deploy(t, "a", across, hastily).ready()
	onA := writeTo(t, a)
	onA.more(t, 500)
	heal := net.cut(t, line)
	source := *a
	source.Store = in.at(net.server.URL)
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := source.copyTo("b", b.Store, "--wait=90s")
	a.until(server.SelfFenced)
	eventually(t, "the claim", func() bool {
		o, err := syncobject.NewFile(source.Store.direct).Read(t.Context())
		return err == nil && o.Destination.ID == "b"
	})
	heal()
	if done := copying.want(0).outcome(); done.Lossy || done.DecidedBy != string(syncobject.Source) {
		t.Errorf("%+v", done)
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantSameHistory(t, a, b)
}

func TestRow23WBelowTheBound(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	a.copyTo("b", newFolder(t), "--wait=40s").want(2, "W(1−ρ) > (L + max(K, G))(1+ρ) + δ", "40s × (1 − 0.001) = 39.960 s", "40s + max(15s, 30s)")
	if _, err := syncobject.NewFile(a.Store.direct).Read(t.Context()); err == nil {
		t.Error("it was claimed nevertheless")
	}
	if _, p := a.members[0].progress(t, "?fresh=true"); p.Role != server.Owner || p.Initiated {
		t.Errorf("%+v", p)
	}
}
