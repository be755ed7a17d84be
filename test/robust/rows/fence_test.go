package rows

import (
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// TestRow04RestartedEtcdWaitsInTheGate, however often it is restarted.
func TestRow04RestartedEtcdWaitsInTheGate(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 300)
	a.initiate()
	a.until(server.Ceded)
	for range 3 {
		restarts := m.Restarts("etcd")
		eventually(t, "the gate waits", func() bool { return len(m.PIDs("etcd")) == 1 })
		m.Kill("etcd")
		eventually(t, "a restart", func() bool { return m.Restarts("etcd") > restarts && len(m.PIDs("etcd")) == 1 })
	}
	onA.refused(t)
	a.wantDown()
	if status, body := ask(t, http.MethodGet, m.url("/healthz")); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	b.takeOver()
	onA.stop()
	onA.wantKept(t, b)
	a.wantDown()
}

// TestEtcdStartedByHand past the gate never serves, and does once the sidecar
// lets the deployment serve again.
func TestEtcdStartedByHand(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 300)
	a.initiate()
	a.until(server.Ceded)
	onA.refused(t)
	before := len(onA.acked())
	command := a.etcdCommand(m)
	hand, err := proc.Start(exec.Command(command[5], command[6:]...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hand.Kill)
	eventually(t, "it listens", m.listens) // and there it stays: the kernel takes connections for it
	onA.refused(t)
	if n := len(onA.acked()); n > before {
		t.Errorf("it has acknowledged %d writes", n-before)
	}
	select {
	case <-hand.Ended():
		t.Error("it has ended: it was to wait for the lock")
	default:
	}
	hand.Kill()
	if status, body := ask(t, http.MethodPost, m.url("/copyop/reclaim")); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	a.ready()
	onA.more(t, 100)
	onA.stop()
	onA.wantKept(t, a)
}

// TestRow05WrapperBetweenGateAndEtcd: what has passed the gate and is not etcd yet
// would serve later.
func TestRow05WrapperBetweenGateAndEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := deploy(t, "a", newFolder(t), func(d *deployment) {
		d.Wrapper = `if [ -e ` + dir + `/hold ]; then touch ` + dir + `/held; while [ -e ` + dir + `/hold ]; do sleep 0.05; done; fi; exec "$@"`
	}).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 500)
	touch(t, dir+"/hold")
	m.Kill("etcd")
	eventually(t, "the wrapper has passed the gate", func() bool { return exists(dir + "/held") })
	a.initiate()
	remove(t, dir+"/hold")
	a.until(server.Ceded)
	onA.refused(t)
	a.wantDown()
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	a.wantDown()
	wantSameHistory(t, a, b)
}

// TestRow06DeafEtcd: an etcd that does not hear SIGTERM is killed, and what it has
// acknowledged is in its log alone.
func TestRow06DeafEtcd(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := deploy(t, "a", newFolder(t), func(d *deployment) { d.Version, d.Flags = version, []string{"--kill-grace=1s"} }).ready()
			onA := writeTo(t, a)
			onA.more(t, 1_000)
			if err := syscall.Kill(a.members[0].etcd(), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			b := newDeployment(t, "b", newFolder(t), 1)
			b.Version = version
			if done := a.copyTo("b", b.Store).want(0).outcome(); done.Lossy {
				t.Errorf("%+v", done)
			}
			onA.refused(t)
			onB := writeTo(t, b.takeOver())
			onB.more(t, 100)
			onA.stop()
			onA.wantKept(t, b)
			onA.wantBefore(t, onB)
			wantSameHistory(t, a, b)
			a.wantDown()
		})
	}
}

// TestRow30SidecarKilledWhileTheStoreIsDown: etcd may run until the deadline that
// was written down.
func TestRow30SidecarKilledWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	net := newNetwork(t)
	across, line := net.bucket(t).through()
	a := deploy(t, "a", across, hastily, withKillBudget, func(d *deployment) { d.Flags = append(d.Flags, "--lease="+lease.String()) }).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 300)
	cut := time.Now()
	heal := net.cut(t, line)
	m.Kill("sidecar")
	eventually(t, "the sidecar is back", func() bool { status, p := m.progress(t, ""); return status != 0 && p.Role == server.Unknown })
	if status, body := ask(t, http.MethodGet, m.url("/healthz")); status != http.StatusServiceUnavailable {
		t.Errorf("nothing was read, and /healthz answers %d %s", status, body)
	}
	if status, p := m.progress(t, ""); status != http.StatusServiceUnavailable {
		t.Errorf("nothing was read, and the status is %d %+v", status, p)
	}
	onA.more(t, 50)
	eventually(t, "etcd is dead", func() bool { return m.etcd() == 0 })
	onA.wantNothingAfter(t, cut.Add(lease+killBudget))
	a.until(server.SelfFenced)
	a.wantDown()
	heal()
	a.ready()
	onA.more(t, 100)
	onA.stop()
	onA.wantKept(t, a)
}

// TestWatchdog: a sidecar that stands still cannot end etcd, so the kubelet does.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t), hastily).ready()
	m := a.members[0]
	onA := writeTo(t, a)
	onA.more(t, 300)
	pid := m.PIDs("sidecar")[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kubelet has ended etcd", func() bool { return m.etcd() == 0 && m.Restarts("etcd") > 0 })
	onA.refused(t)
	a.wantDown()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.ready()
	onA.more(t, 100)
	onA.stop()
	onA.wantKept(t, a)
}

// TestRow46OthersNamedEtcd: what is not ours is left alone. That a pid may be used
// again, and who may not signal etcd, is tested in pkg/etcd/fence.
func TestRow46OthersNamedEtcd(t *testing.T) {
	t.Parallel()
	other := etcdtest.Start(t)
	decoy := startDecoy(t)
	a := deploy(t, "a", newFolder(t)).ready()
	onA := writeTo(t, a)
	onA.more(t, 300)
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	select {
	case <-decoy.Ended():
		t.Error("a process of the name etcd was ended")
	case <-other.Ended():
		t.Error("another etcd was ended")
	default:
	}
	other.Fill(t, 10, 10)
	b.takeOver()
	onA.stop()
	onA.wantKept(t, b)
	a.wantDown()
}
