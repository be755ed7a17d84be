package etcdtest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryVersion(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			status, err := e.Client(t).Status(t.Context(), e.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			if status.Version != version {
				t.Errorf("version %s runs, want %s", status.Version, version)
			}
			for _, name := range []string{"etcdctl", "etcdutl"} {
				out, err := exec.CommandContext(t.Context(), etcdtest.Tool(t, version, name), "version").Output()
				if err != nil || !strings.Contains(string(out), version) {
					t.Errorf("%s says %q, error %v", name, out, err)
				}
			}
		})
	}
}

func TestFillMakesARevisionForEachKey(t *testing.T) {
	e := etcdtest.Start(t)
	before := e.Revision(t)
	if after := e.Fill(t, 100, 1<<10); after != before+100 {
		t.Errorf("revision %d after filling 100 keys from revision %d", after, before)
	}
}

func TestHashKV(t *testing.T) {
	e := etcdtest.Start(t)
	revision := e.Fill(t, 10, 10)
	before, _ := e.HashKV(t, revision)
	e.Fill(t, 1, 10)
	if again, _ := e.HashKV(t, revision); again != before {
		t.Errorf("hash at revision %d changed from %x to %x", revision, before, again)
	}
	if newest, _ := e.HashKV(t, 0); newest == before {
		t.Errorf("hash %x has not changed with the content", newest)
	}
	if _, err := e.Client(t).Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if _, compacted := e.HashKV(t, 0); compacted != revision {
		t.Errorf("compacted revision %d, want %d", compacted, revision)
	}
}

func TestAcknowledgedWritesSurvive(t *testing.T) {
	for name, end := range map[string]func(*etcdtest.Etcd, testing.TB){
		"stop": (*etcdtest.Etcd).Stop,
		"kill": (*etcdtest.Etcd).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			e := etcdtest.Start(t)
			c := e.Client(t)
			w := etcdtest.StartWriter(t, c, "w/", 4)
			w.WaitAcked(t, 50)
			end(e, t)
			select {
			case <-e.Ended():
			default:
				t.Error("etcd has not ended")
			}
			e.Restart(t)
			w.WaitAcked(t, len(w.Acked())+50)
			w.Stop()
			w.Check(t, c)
			if w.Failed() == 0 {
				t.Error("no put failed although etcd was away")
			}
		})
	}
}

func TestWriterFindsWhatIsLost(t *testing.T) {
	e := etcdtest.Start(t)
	c := e.Client(t)
	w := etcdtest.StartWriter(t, c, "w/", 1)
	w.WaitAcked(t, 3)
	w.Stop()
	acks := w.Acked()
	if _, err := c.Delete(t.Context(), acks[0].Key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), acks[1].Key, acks[1].Value); err != nil { // the right value at another revision
		t.Fatal(err)
	}
	found := &recorder{TB: t}
	w.Check(found, c)
	if len(found.errors) != 2 {
		t.Errorf("Check found %q, want the deleted key and the one put again", found.errors)
	}
}

// recorder is a test that takes note of its errors and does not fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestPausedEtcdDoesNotAnswer(t *testing.T) {
	e := etcdtest.Start(t)
	c := e.Client(t)
	e.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "any"); err == nil {
		t.Error("a paused etcd answered")
	}
	e.Resume(t)
	if _, err := c.Get(t.Context(), "any"); err != nil {
		t.Error(err)
	}
}

func TestUpgradeInPlace(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.WithVersion("3.6.16"))
	revision := e.Fill(t, 10, 10)
	before, _ := e.HashKV(t, revision)
	e.Stop(t)
	e.Restart(t, etcdtest.WithVersion("3.7.3"))
	if after, _ := e.HashKV(t, revision); after != before {
		t.Errorf("hash %x before the upgrade, %x after it", before, after)
	}
}

func TestTLSAndAuth(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			e := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithTLS())
			anonymous := e.Client(t)
			e.EnableAuth(t)
			if _, err := anonymous.Get(t.Context(), "any"); err == nil {
				t.Error("a client without a password can read")
			}
			e.Fill(t, 10, 10)
			e.HashKV(t, 0)
			e.Stop(t)
			e.Restart(t)
			out, err := exec.CommandContext(t.Context(), etcdtest.Tool(t, version, "etcdctl"), "put", "key", "value",
				"--endpoints="+e.Endpoint(), "--user="+e.Auth.User, "--password="+e.Auth.Password,
				"--cacert="+e.TLS.CAFile, "--cert="+e.TLS.CertFile, "--key="+e.TLS.KeyFile).CombinedOutput()
			if err != nil {
				t.Errorf("etcdctl: %v\n%s", err, out)
			}
		})
	}
}

func TestClusterOutlivesAMember(t *testing.T) {
	cluster := etcdtest.StartCluster(t, 3)
	first, other := cluster.Members[0], cluster.Members[1]
	first.Kill(t)
	other.WaitHealthy(t)
	c := other.Client(t)
	if _, err := c.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	first.Restart(t)
	r, err := first.Client(t).Get(t.Context(), "key", clientv3.WithCountOnly())
	if err != nil || r.Count != 1 {
		t.Errorf("count %d, error %v from the member that was away", r.Count, err)
	}
}

func TestClusterFromRestoredDataDirs(t *testing.T) {
	source := etcdtest.Start(t)
	revision := source.Fill(t, 10, 10)
	want, _ := source.HashKV(t, revision)
	source.Stop(t)

	cluster := etcdtest.NewCluster(t, 3)
	for _, m := range cluster.Members {
		out, err := exec.CommandContext(t.Context(), etcdtest.Tool(t, m.Version, "etcdutl"), "snapshot", "restore",
			source.DataDir+"/member/snap/db", "--skip-hash-check", "--data-dir="+m.DataDir, "--name="+m.Name,
			"--initial-cluster="+cluster.Initial(), "--initial-advertise-peer-urls="+m.PeerURL).CombinedOutput()
		if err != nil {
			t.Fatalf("etcdutl: %v\n%s", err, out)
		}
	}
	cluster.Start(t)
	for _, m := range cluster.Members {
		if got, _ := m.HashKV(t, revision); got != want {
			t.Errorf("%s: hash %x, want %x", m, got, want)
		}
	}
}

func TestRestartWaitsForItsPort(t *testing.T) {
	e := etcdtest.Start(t)
	e.Stop(t)
	thief, err := new(net.ListenConfig).Listen(t.Context(), "tcp", strings.TrimPrefix(e.Endpoint(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = thief.Close() })
	e.Restart(t)
}

// TestNoOrphan runs this test binary again, which starts an etcd and dies.
func TestNoOrphan(t *testing.T) {
	const child = "ETCDTEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println(etcdtest.Start(t).Endpoint())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoOrphan$")
	cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Wait()
	address := strings.TrimPrefix(strings.TrimSpace(line), "http://")
	if address == "" {
		t.Fatal("the child did not say where its etcd is")
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("etcd is still there after the death of the test binary")
		}
	}
}
