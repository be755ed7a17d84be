package etcdtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// quota is the largest database size that etcd recommends, in bytes.
const quota = 8 << 30

// Etcd is a member of an etcd cluster, usually the only one.
type Etcd struct {
	Name    string
	Version string
	DataDir string
	PeerURL string
	// TLS is nil without WithTLS.
	TLS *TLS
	// Auth is nil before EnableAuth.
	Auth *Auth

	options  options
	endpoint string
	cluster  []string       // flags that say what the cluster is
	reserved []net.Listener // of the ports, until the first start
	log      string         // path
	process  *proc.Process
}

// Start runs an etcd that forms a cluster of its own, and returns when it is
// healthy. It ends with the test.
func Start(t testing.TB, opts ...Option) *Etcd {
	t.Helper()
	return StartCluster(t, 1, opts...).Members[0]
}

// newEtcd prepares a member without running it.
func newEtcd(t testing.TB, name string, o options, files *TLS) *Etcd {
	t.Helper()
	e := &Etcd{
		Name: name, Version: o.version, DataDir: o.dataDir, TLS: files, options: o,
		log: filepath.Join(t.TempDir(), name+".log"),
	}
	scheme := "http://"
	if files != nil {
		scheme = "https://"
	}
	e.endpoint = scheme + e.reserve(t)
	e.PeerURL = "http://" + e.reserve(t)
	t.Cleanup(func() { e.cleanup(t) })
	return e
}

// reserve returns an address that nobody else will get before the first start.
func (e *Etcd) reserve(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.reserved = append(e.reserved, l)
	return l.Addr().String()
}

func (e *Etcd) release() {
	for _, l := range e.reserved {
		_ = l.Close()
	}
	e.reserved = nil
}

func (e *Etcd) cleanup(t testing.TB) {
	e.release()
	if e.process != nil && !e.process.Stop() {
		t.Logf("%s: still there %v after SIGTERM, killed", e, proc.Grace)
	}
	if t.Failed() {
		t.Logf("end of the log of %s:\n%s", e, e.logTail(20))
	}
}

// run starts the process without waiting for its health.
func (e *Etcd) run(t testing.TB) {
	t.Helper()
	out, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(Tool(t, e.Version, "etcd"), e.args()...)
	cmd.Env, cmd.Stdout, cmd.Stderr = e.options.environ(), out, out
	e.release()
	if e.process, err = proc.Start(cmd); err != nil {
		t.Fatalf("start %s: %v", e, err)
	}
}

func (e *Etcd) args() []string {
	args := []string{
		"--name=" + e.Name,
		"--data-dir=" + e.DataDir,
		"--listen-client-urls=" + e.endpoint,
		"--advertise-client-urls=" + e.endpoint,
		"--listen-peer-urls=" + e.PeerURL,
		"--initial-advertise-peer-urls=" + e.PeerURL,
		"--log-level=warn",
		fmt.Sprintf("--quota-backend-bytes=%d", quota),
	}
	args = append(args, e.cluster...)
	args = append(args, e.TLS.args()...)
	return append(args, e.options.args...)
}

// Endpoint is the URL for clients.
func (e *Etcd) Endpoint() string { return e.endpoint }

// PID is the id of the present process, or of the last one.
func (e *Etcd) PID() int { return e.process.PID() }

// Ended is closed when the present process has ended, for whatever reason.
func (e *Etcd) Ended() <-chan struct{} { return e.process.Ended() }

// String names the member in messages.
func (e *Etcd) String() string { return fmt.Sprintf("etcd %s %q", e.Version, e.Name) }

// Stop asks etcd to end and waits until it has.
func (e *Etcd) Stop(t testing.TB) {
	t.Helper()
	if !e.process.Stop() {
		t.Fatalf("%s: still there %v after SIGTERM", e, proc.Grace)
	}
}

// Kill ends etcd with SIGKILL and waits until it is gone.
func (e *Etcd) Kill(testing.TB) { e.process.Kill() }

// Pause stops etcd where it stands, until Resume.
func (e *Etcd) Pause(testing.TB) { e.process.Pause() }

// Resume lets a paused etcd go on.
func (e *Etcd) Resume(testing.TB) { e.process.Resume() }

// Restart runs an etcd again that has ended, changed by opts, on the same ports
// and data dir, and waits until it is healthy.
func (e *Etcd) Restart(t testing.TB, opts ...Option) {
	t.Helper()
	for _, opt := range opts {
		opt(&e.options)
	}
	e.Version, e.DataDir = e.options.version, e.options.dataDir
	e.run(t)
	e.WaitHealthy(t)
}

// logTail returns the last lines that the member has logged.
func (e *Etcd) logTail(lines int) string {
	data, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(bytes.TrimSpace(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
