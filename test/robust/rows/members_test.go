package rows

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/history"
)

// leader is the member that leads the cluster.
func (d *deployment) leader() (leads *member) {
	d.t.Helper()
	eventually(d.t, "there is a leader", func() bool {
		i := slices.IndexFunc(d.members, (*member).leads)
		if i >= 0 {
			leads = d.members[i]
		}
		return i >= 0
	})
	return leads
}

func (m *member) leads() bool {
	c, err := m.dial()
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(c.Ctx(), time.Second)
	defer cancel()
	s, err := c.Status(ctx, m.client)
	return err == nil && s.Leader == s.Header.MemberId
}

// of is some members of a deployment.
func (d *deployment) of(some ...*member) *deployment {
	part := *d
	part.members = some
	return &part
}

// without is what is left of a deployment.
func (d *deployment) without(gone *member) *deployment {
	return d.of(slices.DeleteFunc(slices.Clone(d.members), func(m *member) bool { return m == gone })...)
}

// finals are the final snapshots of the hand-over that was wanted last.
func (c container) finals(t *testing.T) (names []string) {
	t.Helper()
	o := c.object(t)
	l, err := c.archive().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Manifests {
		if m.Final && m.OperationID == o.OperationID {
			names = append(names, m.Name)
		}
	}
	return names
}

// TestRow36LeaderLost: the leader is lost while its sidecar stores the final
// snapshot. Another one's does it, and there is one.
func TestRow36LeaderLost(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(leader *member) (found func()){
		"its machine": func(leader *member) func() { leader.Crash(); return nil },
		"its sidecar stands still": func(leader *member) func() {
			pid := leader.PIDs("sidecar")[0]
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			net := newNetwork(t)
			in := net.bucket(t)
			across, line := in.through()
			a := newDeployment(t, "a", across, 3)
			a.Flags = []string{"--read-timeout=1s", "--kill-grace=4s", "--kill-budget=5s"} // others wait for this long
			a.start()
			onA := writeTo(t, a.ready())
			a.fill(2 << 10)
			onA.more(t, 500)
			leader := a.leader()
			heal := net.throttle(t, line, 20) // the final snapshot takes minutes
			a.initiate()
			a.of(leader).until(server.Snapshotting)
			found := lose(leader)
			heal()
			a.without(leader).until(server.Ceded)
			if found != nil {
				found()
				a.until(server.Ceded)
			}
			o := across.object(t)
			if finals := across.finals(t); len(finals) != 1 || o.Decision.By != syncobject.Source || o.Decision.Lossy || o.Snapshots.Items[0].Name != finals[0] {
				t.Errorf("finals %v, %+v", finals, o)
			}
			b := newDeployment(t, "b", newFolder(t), 1)
			source := *a
			source.Store = in.at(net.server.URL)
			source.copyTo("b", b.Store).want(0)
			a.wantDown()
			onB := writeTo(t, b.takeOver())
			onB.more(t, 100)
			onA.stop()
			onA.wantKept(t, b)
			onA.wantBefore(t, onB)
		})
	}
}

// TestRow37OneMemberDead: two of three can prove what was acknowledged.
func TestRow37OneMemberDead(t *testing.T) {
	t.Parallel()
	a := newDeployment(t, "a", newFolder(t), 3)
	a.start()
	onA := writeTo(t, a.ready())
	onA.more(t, 500)
	a.leader().Crash()
	onA.more(t, 500)
	b := newDeployment(t, "b", newFolder(t), 1)
	if done := a.copyTo("b", b.Store).want(0).outcome(); done.Lossy || done.Forced {
		t.Errorf("%+v", done)
	}
	a.wantDown()
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantFinalHash(t, a, b)
}

// TestRow37TwoMembersDead: one of three can prove nothing, so that only force is
// left, which loses what is not stored. Where the sidecars live and have said that
// all etcds have ended, nobody waits for that.
func TestRow37TwoMembersDead(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		machines bool // are gone, not the etcds alone
		flags    []string
		phase    syncobject.SourcePhase
	}{
		"their machines": {true, nil, syncobject.Fencing},
		"their etcds":    {false, []string{"--wait=1h"}, syncobject.SnapshotFailed},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a := newDeployment(t, "a", newFolder(t), 3)
			a.Pace = hasty
			a.Wrapper = fmt.Sprintf(`if [ -e "%s/$2" ]; then exit 1; fi; exec "$@"`, dir) // --name=...
			a.start()
			onA := writeTo(t, a.ready())
			onA.more(t, 500)
			eventually(t, "something is stored", func() bool { return stored(t, a.Store) > 0 })
			for _, m := range a.members[1:] {
				if c.machines {
					m.Crash()
					continue
				}
				touch(t, dir+"/--name="+m.name)
				m.Kill("etcd")
			}
			onA.refused(t)
			b := newDeployment(t, "b", newFolder(t), 1)
			b.Pace = hasty
			done := a.copyTo("b", b.Store, c.flags...).want(6, "LOSSY").outcome()
			if o := a.Store.object(t); !done.Lossy || !done.Forced || o.Source.Phase != c.phase || o.Decision.By != syncobject.Destination || len(a.Store.finals(t)) > 0 {
				t.Errorf("%+v, %+v", done, o)
			}
			onB := writeTo(t, b.takeOver())
			onB.more(t, 100)
			onA.stop()
			onA.wantKeptThrough(t, b, done.ThroughRevision)
			onA.wantBefore(t, onB)
			a.wantDown()
		})
	}
}

// TestFrozenClusterMayAnswerReads: a member of several acknowledges no write any
// more from the fence on, but it answers reads until its sidecar has seen the
// decision and has ended it. What it reads may be old by then. Rows with several
// members therefore wait for that before the next one serves.
func TestFrozenClusterMayAnswerReads(t *testing.T) {
	t.Parallel()
	const poll, read, kill = 4 * time.Second, 3 * time.Second, 15 * time.Second
	a, b := newDeployment(t, "a", newFolder(t), 3), newDeployment(t, "b", newFolder(t), 1)
	a.Flags = []string{"--poll-period=" + poll.String()}
	a.start()
	onA := writeTo(t, a.ready())
	onA.more(t, 500)
	a.copyTo("b", b.Store).want(0)
	decided := time.Now()
	b.start()
	onB := writeTo(t, b)
	a.wantDown()
	if took := time.Since(decided); took > poll/10*11/10+read+kill {
		t.Errorf("the source is down %v after it was decided", took)
	}
	b.ready()
	onB.more(t, 100)
	onA.stop()
	client, err := b.members[0].dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	violations, err := onB.Check(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Log(v)
		if v.Rule != history.WentBack && v.Rule != history.NoRegister {
			t.Error("that is no read")
		}
	}
}
