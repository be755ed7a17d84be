package rows

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// badLines are what a line of a process can suffer from, and for how long.
var badLines = map[string]struct {
	toxics []storeservers.Toxic
	lasts  time.Duration
}{
	"silent":  {[]storeservers.Toxic{toxic("timeout", "upstream", "timeout", 0), toxic("timeout", "downstream", "timeout", 0)}, 2500 * time.Millisecond},
	"refused": {[]storeservers.Toxic{toxic("reset_peer", "upstream", "timeout", 0)}, 2 * time.Second},
	"cut":     {[]storeservers.Toxic{toxic("limit_data", "upstream", "bytes", 200<<10), toxic("limit_data", "downstream", "bytes", 200<<10)}, 3 * time.Second},
	"slow":    {[]storeservers.Toxic{toxic("latency", "upstream", "latency", 60), toxic("slow_close", "downstream", "delay", 200)}, 10 * time.Second},
}

func toxic(kind, stream, attribute string, value int64) storeservers.Toxic {
	return storeservers.Toxic{Type: kind, Stream: stream, Attributes: map[string]int64{attribute: value}}
}

// TestHandOverOverBadLines: those of the sidecar to its store, and of the copy to
// both stores, are bad at once while everything happens.
func TestHandOverOverBadLines(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	for name, bad := range badLines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, own := net.bucket(t), net.bucket(t)
			ofSidecar, lineOfSidecar := in.through()
			fromSource, lineToSource := in.through()
			toOwn, lineToOwn := own.through()
			a := deploy(t, "a", ofSidecar).ready()
			a.fill(1 << 10)
			onA := writeTo(t, a)
			onA.more(t, 300)
			source := *a
			source.Store = fromSource
			var heals []func()
			for _, l := range []*storeservers.Line{lineOfSidecar, lineToSource, lineToOwn} {
				heals = append(heals, net.toxi.Suffer(t, l, bad.toxics...))
			}
			b := newDeployment(t, "b", toOwn, 1)
			copying := source.copyTo("b", toOwn)
			select {
			case <-copying.process.Ended():
			case <-time.After(bad.lasts):
			}
			for _, heal := range heals {
				heal()
			}
			handedOverOnce(t, a, b, copying.want(0).outcome())
			goesOn(t, onA, a, b)
			wantSameHistory(t, a, b)
		})
	}
}

// TestLineBetweenSidecarAndEtcd: a sidecar that does not reach its etcd is an
// owner still, goes on where the backup ended when it does, and hands over without
// it.
func TestLineBetweenSidecarAndEtcd(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	a := newDeployment(t, "a", newFolder(t), 1)
	m := a.members[0]
	line := net.toxi.Line(t, "http://"+m.client)
	a.EtcdAt = line.URL
	a.Flags = []string{"--delta-share=0.05"} // fulls are cut too
	a.start()
	onA := writeTo(t, a.ready())
	a.fill(512)
	onA.more(t, 300)
	pid := m.etcd()
	for name, bad := range badLines {
		heal := net.toxi.Suffer(t, line, bad.toxics...)
		wait(t, min(bad.lasts, 2*time.Second))
		onA.more(t, 100)
		if _, p := m.progress(t, ""); p.Role != server.Owner {
			t.Errorf("%s: %+v", name, p)
		}
		if status, body := ask(t, http.MethodGet, m.url("/livez/etcd")); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
		heal()
		wantBackedUp(t, a)
		whole.Through(t, a.Store.direct)
	}
	if m.etcd() != pid || m.Restarts("sidecar") != 0 || m.Restarts("etcd") != 0 {
		t.Error("somebody was restarted")
	}
	net.cut(t, line)
	b := newDeployment(t, "b", newFolder(t), 1)
	handedOverOnce(t, a, b, a.copyTo("b", b.Store).want(0).outcome())
	goesOn(t, onA, a, b)
	wantSameHistory(t, a, b)
}

// TestCommandsOverBadLines: what people run by hand survives a line that is bad
// for a while. A restore is whole or is not there.
func TestCommandsOverBadLines(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	a := deploy(t, "a", in.at(net.server.URL)).ready()
	onA := writeTo(t, a)
	a.fill(1 << 10)
	onA.more(t, 300)
	onA.stop()
	wantBackedUp(t, a)
	commands := map[string][]string{
		"list":     {"list"},
		"verify":   {"verify", "--level=content"},
		"restore":  {"restore", "--data-dir"},
		"prune":    {"prune", "--keep-last=100"},
		"snapshot": {"snapshot", "full", "--etcd-endpoints=http://" + a.members[0].client},
	}
	for name, bad := range badLines {
		for command, args := range commands {
			t.Run(command+", "+name, func(t *testing.T) {
				t.Parallel()
				across, to := in.through()
				line, dir := slices.Clone(args), filepath.Join(t.TempDir(), "etcd")
				if command == "restore" {
					line = append(line, dir)
				}
				line = slices.Concat(line, across.flags("store"))
				heal := net.toxi.Suffer(t, to, bad.toxics...)
				j := begin(t, line...)
				select {
				case <-j.process.Ended():
				case <-time.After(bad.lasts):
				}
				heal()
				if j.code() != 0 {
					wantClearFailure(t, j, in.name, dir)
					if name == "silent" || name == "slow" { // the others cost as many attempts as they like
						t.Errorf("%v of it are too much", bad.lasts)
					}
					begin(t, line...).want(0)
				}
				if command == "restore" {
					onA.wantKeptIn(t, dir)
				}
			})
		}
	}
}

// wantClearFailure looks that a command has said what was the matter with which
// bucket, and left nothing of a restore.
func wantClearFailure(t *testing.T, j *job, bucket, dir string) {
	t.Helper()
	text := j.stderr.String()
	t.Logf("exit code %d: %s", j.code(), tail(text))
	if j.code() != 1 || !strings.Contains(text, "error: ") || !strings.Contains(text, bucket) {
		t.Error("the error is not clear")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("a failed restore left %v, %v", left, err)
	}
}
