package rows

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestRow15TwoDestinations(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	onA := writeTo(t, a)
	onA.more(t, 300)
	both := map[string]*job{}
	containers := map[string]container{"b": newFolder(t), "c": newFolder(t)}
	for id, c := range containers {
		both[id] = a.copyTo(id, c)
	}
	winner, loser := "b", "c"
	<-both[winner].process.Ended()
	if both[winner].cmd.ProcessState.ExitCode() != 0 {
		winner, loser = loser, winner
	}
	both[winner].want(0)
	both[loser].want(3, fmt.Sprintf("%q", winner))
	if o := a.Store.object(t); o.Owner.ID != winner || o.Status != syncobject.Done {
		t.Errorf("%+v", o)
	}
	next := newDeployment(t, winner, containers[winner], 1)
	next.takeOver()
	onA.stop()
	onA.wantKept(t, next)
}

// fill puts what does not compress, so many kilobytes.
func (d *deployment) fill(kilobytes int) {
	d.t.Helper()
	c, err := d.members[0].dial()
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	value := make([]byte, 8<<10)
	for i := range kilobytes / 8 {
		for j := range value {
			value[j] = byte(rand.Uint32())
		}
		if _, err := c.Put(d.t.Context(), fmt.Sprint("fill/", i), string(value)); err != nil {
			d.t.Fatal(err)
		}
	}
}

func TestRow16Abort(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	across, line := net.bucket(t).through()
	a := deploy(t, "a", across).ready()
	onA := writeTo(t, a)
	a.fill(2 << 10)
	onA.more(t, 300)
	heal := net.throttle(t, line, 20) // the final snapshot takes minutes
	a.initiate()
	a.until(server.Snapshotting)
	a.wantDown()
	abort := a.members[0].url("/copyop/abort")
	if status, body := ask(t, http.MethodPost, abort); status != http.StatusOK || !strings.Contains(body, `"Aborted"`) {
		t.Errorf("%d %s", status, body)
	}
	a.until(server.Owner)
	a.ready()
	onA.more(t, 300)
	if status, body := ask(t, http.MethodPost, abort); status != http.StatusOK {
		t.Errorf("aborted again: %d %s", status, body)
	}
	heal()

	a.initiate()
	a.until(server.Ceded)
	if status, body := ask(t, http.MethodPost, abort); status != http.StatusConflict || !strings.Contains(body, "decided") {
		t.Errorf("after Ready: %d %s", status, body)
	}
	begin(t, "copyop", "abort", "--server", a.members[0].url("")).want(3, "decided")
	if o := a.Store.object(t); o.Status != syncobject.Ready || o.Generation != 2 {
		t.Errorf("%+v", o)
	}
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	onA.stop()
	b.takeOver()
	onA.wantKept(t, b)
}

// TestRow17ReclaimBeforeCommit: the operator takes it back while the destination
// copies.
func TestRow17ReclaimBeforeCommit(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	a := deploy(t, "a", in.at(net.server.URL)).ready()
	onA := writeTo(t, a)
	a.fill(2 << 10)
	onA.more(t, 300)
	a.initiate()
	a.until(server.Ceded)
	heal := net.slow(t, line, 20)
	source := *a
	source.Store = across
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := source.copyTo("b", b.Store)
	eventually(t, "b copies", func() bool {
		begun, err := b.Store.direct.List(t.Context(), "snapshots/")
		return err == nil && len(begun) > 0
	})
	reclaim := begin(t, "copyop", "reclaim", "--server", a.members[0].url(""), "--yes", "-o", "json").want(0)
	if !strings.Contains(reclaim.stdout.String(), `"Aborted"`) {
		t.Error(reclaim.stdout.String())
	}
	a.ready()
	onA.more(t, 300)
	heal()
	copying.want(5)

	b.start()
	m := b.members[0]
	eventually(t, "b says why it does not serve", func() bool { _, p := m.progress(t, ""); return p.Reason != "" && p.Role != server.Unknown })
	onA.more(t, 200)
	b.wantDown()
	if _, p := m.progress(t, ""); p.Reason == "" {
		t.Errorf("%+v", p)
	}
	onA.stop()
	onA.wantKept(t, a)
}

// TestRow17ReclaimAfterCommit: then it is too late.
func TestRow17ReclaimAfterCommit(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	a.copyTo("b", newFolder(t)).want(0)
	a.until(server.Ceded)
	if status, body := ask(t, http.MethodPost, a.members[0].url("/copyop/reclaim")); status != http.StatusConflict {
		t.Errorf("%d %s", status, body)
	}
	begin(t, "copyop", "reclaim", "--server", a.members[0].url(""), "--yes").want(3)
	if o := a.Store.object(t); o.Owner.ID != "b" || o.Outcome != syncobject.Completed {
		t.Errorf("%+v", o)
	}
	a.wantDown()
}

// TestRow38Hibernated: a source that has released its container is not waited for.
func TestRow38Hibernated(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t), func(d *deployment) { // as long as the kubelet allows
		d.Flags = []string{"--kill-grace=20s", "--kill-budget=25s", "--release-timeout=28s"}
	}).ready()
	onA := writeTo(t, a)
	onA.more(t, 1_000)
	a.stop()
	onA.refused(t)
	if o := a.Store.owner(t); o.State != syncobject.Released {
		t.Fatalf("%+v\n%s", o, tail(a.members[0].Log("sidecar")))
	}
	b := newDeployment(t, "b", newFolder(t), 1)
	done := a.copyTo("b", b.Store, "--wait=1h").want(0).outcome()
	if done.Lossy || done.Forced {
		t.Errorf("%+v", done)
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 200)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
}

// TestRow38WakeUpAgainstTakeOver: whoever is faster, there is one owner.
func TestRow38WakeUpAgainstTakeOver(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 300 * time.Millisecond, time.Second} {
		t.Run("woken "+ahead.String()+" after the claim", func(t *testing.T) {
			t.Parallel()
			a := deploy(t, "a", newFolder(t)).ready()
			onA := writeTo(t, a)
			onA.more(t, 300)
			a.stop()
			b := newDeployment(t, "b", newFolder(t), 1)
			copying := a.copyTo("b", b.Store)
			wait(t, ahead)
			a.start()
			done := copying.want(0).outcome()
			onB := writeTo(t, b.takeOver())
			onB.more(t, 200)
			a.until(server.Ceded)
			onA.stop()
			onA.wantKept(t, b)
			onA.wantBefore(t, onB)
			a.wantDown()
			t.Logf("decided by %s", done.DecidedBy)
		})
	}
}

// wait lets time of other processes pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
