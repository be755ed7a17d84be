package rows

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/kubelet"
)

// pace is how fast everything goes that has a time of its own.
type pace struct {
	sidecar []string // flags of etcd-ferry server
	copying []string // flags of etcd-ferry copy
	probe   kubelet.Probe
}

var (
	// calm is for what does not depend on time: no lease ends by itself however
	// busy the machine is.
	calm = pace{
		sidecar: []string{
			"--poll-period=200ms", "--read-timeout=3s", "--lease=40s", "--kill-grace=10s", "--kill-budget=15s", "--watchdog=30s",
			"--heartbeat=2s", "--release-timeout=20s", "--delta-period=500ms", "--full-schedule=",
		},
		copying: []string{
			"--poll-period=200ms", "--read-timeout=3s", "--precopy-period=500ms", "--heartbeat-timeout=15s", "--store-slack=1s", "--wait=90s",
		},
		probe: kubelet.Probe{Period: time.Second, Timeout: time.Second, Failures: 25},
	}
	// hasty is for what happens when a lease ends. The bound of W is
	// (3 s + 3 s) · 1.001 + 0.5 s.
	hasty = pace{
		sidecar: []string{
			"--poll-period=200ms", "--read-timeout=700ms", "--lease=3s", "--kill-grace=1s", "--kill-budget=3s", "--watchdog=3s",
			"--heartbeat=1s", "--release-timeout=10s", "--delta-period=500ms", "--full-schedule=",
		},
		copying: []string{
			"--poll-period=200ms", "--read-timeout=700ms", "--precopy-period=500ms", "--heartbeat-timeout=4s", "--store-slack=500ms", "--wait=8s",
		},
		probe: kubelet.Probe{Period: 300 * time.Millisecond, Timeout: time.Second, Failures: 6},
	}
)

// hasteLease is that of hasty.
const hasteLease = 3 * time.Second

// killBudget is given where a test asserts that etcd is dead by then: how much it
// is does not change when etcd is killed.
const killBudget = 15 * time.Second

func withKillBudget(d *deployment) { d.Flags = append(d.Flags, "--kill-budget="+killBudget.String()) }

// deployment is an etcd cluster as it is deployed: a pod for each member, with
// etcd behind a gate and a sidecar. The exported fields are set before start.
type deployment struct {
	ID      string
	Store   container
	Pace    pace
	Version string   // of etcd
	Flags   []string // more for the sidecars
	Wrapper string   // shell script that runs etcd as "$@"
	Trap    *trap    // in which the sidecars die
	EtcdAt  string   // where the sidecars find etcd; empty: where it listens

	t       *testing.T
	members []*member
	token   string
}

// member is one pod.
type member struct {
	*kubelet.Pod
	name               string
	dataDir            string
	client, peer, http string // addresses
}

// newDeployment prepares a deployment of n members in a container.
func newDeployment(t *testing.T, id string, in container, n int) *deployment {
	t.Helper()
	d := &deployment{ID: id, Store: in, Pace: calm, Version: etcdtest.Newest, t: t, token: fmt.Sprint(rand.Uint64())}
	dir := t.TempDir()
	for i := range n {
		name := fmt.Sprintf("%s-%d", id, i)
		d.members = append(d.members, &member{
			name: name, dataDir: filepath.Join(dir, name, "etcd"),
			client: freeAddress(t), peer: freeAddress(t), http: freeAddress(t),
		})
	}
	return d
}

// deploy starts a deployment of one member.
func deploy(t *testing.T, id string, in container, change ...func(*deployment)) *deployment {
	t.Helper()
	d := newDeployment(t, id, in, 1)
	for _, c := range change {
		c(d)
	}
	d.start()
	return d
}

func hastily(d *deployment) { d.Pace = hasty }

// start runs the pods. They are gone with the test.
func (d *deployment) start() {
	d.t.Helper()
	for _, m := range d.members {
		m.start(d)
	}
}

func (m *member) start(d *deployment) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.dataDir), 0o700); err != nil {
		d.t.Fatal(err)
	}
	readiness, liveness := d.Pace.probe, d.Pace.probe
	readiness.URL, liveness.URL = m.url("/healthz"), m.url("/livez/etcd")
	readiness.Failures = 1
	m.Pod = kubelet.Run(d.t,
		kubelet.Container{Name: "etcd", Command: d.etcdCommand(m), Readiness: readiness, Liveness: liveness},
		kubelet.Container{Name: "sidecar", Command: d.sidecarCommand(m), Env: d.Trap.env()},
	)
	d.t.Cleanup(m.Crash) // an orderly end would take its time
}

func (d *deployment) etcdCommand(m *member) []string {
	command := []string{binary, "gate", "--server", "http://" + m.http, "--"}
	if d.Wrapper != "" {
		command = append(command, "sh", "-c", d.Wrapper, "wrapper")
	}
	return append(command, etcdtest.Tool(d.t, d.Version, "etcd"),
		"--name="+m.name, "--data-dir="+m.dataDir, "--log-level=error",
		"--listen-client-urls=http://"+m.client, "--advertise-client-urls=http://"+m.client,
		"--listen-peer-urls=http://"+m.peer, "--initial-advertise-peer-urls=http://"+m.peer,
		"--initial-cluster="+d.initial(), "--initial-cluster-token="+d.token,
	)
}

func (d *deployment) initial() string {
	var all []string
	for _, m := range d.members {
		all = append(all, m.name+"=http://"+m.peer)
	}
	return strings.Join(all, ",")
}

func (d *deployment) sidecarCommand(m *member) []string {
	command := []string{
		d.Trap.program(), "server", "--owner-id", d.ID, "--data-dir", m.dataDir, "--listen", m.http,
		"--etcd-endpoints", cmp.Or(d.EtcdAt, strings.Join(d.endpoints(m), ",")), "--log-level", "debug",
		"--name", m.name, "--initial-cluster", d.initial(), "--initial-advertise-peer-urls", "http://" + m.peer,
	}
	command = append(command, d.Store.flags("store")...)
	command = append(command, d.Pace.sidecar...)
	return append(command, d.Flags...)
}

// endpoints are the addresses for clients, first's first.
func (d *deployment) endpoints(first *member) []string {
	all := []string{"http://" + first.client}
	for _, m := range d.members {
		if m != first {
			all = append(all, "http://"+m.client)
		}
	}
	return all
}

// stop ends the pods in order.
func (d *deployment) stop() {
	for _, m := range d.members {
		m.Stop()
	}
}

// ready returns when the deployment serves.
func (d *deployment) ready() *deployment {
	d.t.Helper()
	for _, m := range d.members {
		eventually(d.t, m.name+" is ready", func() bool { return m.Ready("etcd") })
	}
	return d
}

// dial returns a client of one member.
func (m *member) dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.client}, Logger: zap.NewNop()})
}

// listens reports whether anybody answers clients of the member.
func (m *member) listens() bool {
	c, err := net.DialTimeout("tcp", m.client, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func (m *member) url(path string) string { return "http://" + m.http + path }

// ports are handed out one after the other, so that no two tests get the same one:
// a member that is down has nothing to hold its ports with.
var ports = func() *atomic.Int64 {
	next := new(atomic.Int64)
	next.Store(10_000 + rand.Int64N(15_000))
	return next
}()

// freeAddress returns an address that is free now and that the kernel does not
// hand out by itself, so that a server finds it free again whenever it is
// restarted.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1_000 {
		address := fmt.Sprintf("127.0.0.1:%d", ports.Add(1))
		l, err := net.Listen("tcp", address)
		if err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}
