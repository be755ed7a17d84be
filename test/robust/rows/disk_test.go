package rows

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

// A disk that is full for one process, and for what is big: a file may not become
// larger than diskRoom, as setrlimit(2) has it (RLIMIT_FSIZE), which nobody needs
// to be root for. What the program sees of it is EFBIG, in the place of ENOSPC.
const (
	diskRoom = 128 << 10 // bytes: enough for what is small
	diskFull = "file too large"
)

// fillDisk fills the disk of a process until it is given room again.
func fillDisk(t *testing.T, pid int) (room func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	full := unix.Rlimit{Cur: diskRoom, Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &full, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		before.Cur = before.Max
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
			t.Error(err)
		}
	}
}

// beginFull starts a command of the program with a full disk.
func beginFull(t *testing.T, args ...string) *job {
	t.Helper()
	// In units of 512 bytes (POSIX); the soft limit, which may be raised again.
	const script = `ulimit -S -f "$1"; shift; exec "$@"`
	return beginAs(t, exec.Command("sh", slices.Concat([]string{"-c", script, "sh", "256", binary}, args)...))
}

// TestRow33DiskFullAtTheSource: the final snapshot finds no room. The object says
// so and is not Ready; when there is room it goes on.
func TestRow33DiskFullAtTheSource(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	a.fill(1 << 10)
	onA := writeTo(t, a)
	onA.more(t, 300)
	wantBackedUp(t, a)
	m := a.members[0]
	room := fillDisk(t, m.PIDs("sidecar")[0])
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := a.copyTo("b", b.Store, "--no-force")
	var o syncobject.Object
	eventually(t, "the object says what the matter is", func() bool {
		var err error
		o, err = syncobject.NewFile(a.Store.direct).Read(t.Context())
		return err == nil && o.Source.Phase == syncobject.SnapshotFailed
	})
	if !strings.Contains(o.Source.Error, diskFull) || o.Status != syncobject.Initial || o.Decision.By != "" {
		t.Errorf("%+v", o)
	}
	if status, body := ask(t, http.MethodGet, m.url("/healthz")); status != http.StatusServiceUnavailable {
		t.Errorf("fenced, and /healthz answers %d %s", status, body)
	}
	if _, p := m.progress(t, ""); p.Role != server.Snapshotting {
		t.Errorf("%+v", p)
	}
	whole.Through(t, a.Store.direct)
	onA.refused(t)
	room()
	handedOverOnce(t, a, b, copying.want(0).outcome())
	wantNoLeftovers(t, a.Store)
	goesOn(t, onA, a, b)
	wantSameHistory(t, a, b)
}

// TestRow33DiskFullAtTheDestination: the copy finds no room. It says so, nothing
// of it counts, the object is not Done; when there is room it goes on.
func TestRow33DiskFullAtTheDestination(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	a.fill(1 << 10)
	onA := writeTo(t, a)
	onA.more(t, 300)
	wantBackedUp(t, a)
	b, listen := newDeployment(t, "b", newFolder(t), 1), freeAddress(t)
	copying := beginFull(t, a.copying("b", b.Store, "--listen", listen)...)
	a.until(server.Ceded)
	var status string
	eventually(t, "the copy says what the matter is", func() bool {
		_, status = ask(t, http.MethodGet, "http://"+listen+"/copyop/status")
		return strings.Contains(status, diskFull)
	})
	if !strings.Contains(status, string(copier.Copying)) {
		t.Error(status)
	}
	if status, body := ask(t, http.MethodGet, "http://"+listen+"/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("not done, and /healthz answers %d %s", status, body)
	}
	if o := a.Store.object(t); o.Status != syncobject.Ready {
		t.Errorf("%+v", o)
	}
	if last, all := whole.Through(t, b.Store.direct), stored(t, a.Store); last >= all {
		t.Errorf("it is there up to revision %d", last)
	}
	dir := t.TempDir() + "/etcd"
	if code := begin(t, append([]string{"restore", "--data-dir", dir}, b.Store.flags("store")...)...).code(); code == 0 || exists(dir) {
		t.Errorf("something was restored, exit code %d", code)
	}
	fillDisk(t, copying.process.PID())() // there is room
	eventually(t, "the copy is done", func() bool {
		status, _ := ask(t, http.MethodGet, "http://"+listen+"/healthz")
		return status == http.StatusOK
	})
	copying.process.Signal(syscall.SIGTERM)
	handedOverOnce(t, a, b, copying.want(0).outcome())
	wantNoLeftovers(t, b.Store)
	goesOn(t, onA, a, b)
	wantSameHistory(t, a, b)
}

// TestRow33DiskFullForABackup: etcd serves on, the log says why nothing is stored,
// and when there is room nothing is missing.
func TestRow33DiskFullForABackup(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t), func(d *deployment) { d.Flags = []string{"--delta-period=2s"} }).ready()
	onA := writeTo(t, a)
	onA.more(t, 100)
	m := a.members[0]
	room := fillDisk(t, m.PIDs("sidecar")[0])
	before := stored(t, a.Store)
	a.fill(1 << 10)
	eventually(t, "the log says why", func() bool { return strings.Contains(m.Log("sidecar"), diskFull) })
	pid := m.etcd()
	whole.Through(t, a.Store.direct)
	onA.more(t, 300)
	if now := a.revision(t); stored(t, a.Store) >= now || now <= before {
		t.Errorf("revision %d is stored all the same", now)
	}
	room()
	wantBackedUp(t, a)
	onA.stop()
	wantBackedUp(t, a)
	whole.Through(t, a.Store.direct)
	wantNoLeftovers(t, a.Store)
	if m.etcd() != pid || m.Restarts("sidecar") != 0 {
		t.Error("somebody was restarted")
	}
	onA.wantKept(t, a)
}

// TestRow33DiskFullForARestore: the data dir stays as it is, and nothing is left
// beside it.
func TestRow33DiskFullForARestore(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	a.fill(1 << 10)
	onA := writeTo(t, a)
	onA.more(t, 100)
	onA.stop()
	wantBackedUp(t, a)
	dir := filepath.Join(t.TempDir(), "etcd")
	restore := append([]string{"restore", "--data-dir", dir}, a.Store.flags("store")...)
	beginFull(t, restore...).want(1, diskFull)
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	begin(t, restore...).want(0)
	onA.wantKeptIn(t, dir)
}

// wantNoLeftovers fails if a folder holds what was begun and given up, but for
// what a copy before the decision has announced: its end was not waited for.
func wantNoLeftovers(t *testing.T, in container) {
	t.Helper()
	dir := strings.TrimPrefix(in.url, "file://")
	if left, err := os.ReadDir(filepath.Join(dir, ".tmp")); err != nil && !os.IsNotExist(err) || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
	l, err := in.archive().List(t.Context())
	if err != nil || l.Foreign > 0 {
		t.Errorf("listed are %+v, %v", l, err)
	}
	for _, stray := range l.Strays {
		if !l.Incoming(stray.Name) {
			t.Errorf("%s is there without a manifest", stray.Name)
		}
	}
}

// TestRow33UploadCutInTheMiddle: the final snapshot does not get through. The
// object says so and is not Ready, nothing of it is listed; when the line is good
// again it goes on.
func TestRow33UploadCutInTheMiddle(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	a := deploy(t, "a", across).ready()
	a.fill(1 << 10)
	onA := writeTo(t, a)
	onA.more(t, 300)
	wantBackedUp(t, a)
	source := *a
	source.Store = in.at(net.server.URL)
	heal := net.toxi.Suffer(t, line, toxic("limit_data", "upstream", "bytes", diskRoom)) // of each connection
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := source.copyTo("b", b.Store, "--no-force")
	var o syncobject.Object
	eventually(t, "the object says what the matter is", func() bool {
		var err error
		o, err = syncobject.NewFile(source.Store.direct).Read(t.Context())
		return err == nil && o.Source.Phase == syncobject.SnapshotFailed
	})
	if o.Source.Error == "" || o.Status != syncobject.Initial || o.Decision.By != "" {
		t.Errorf("%+v", o)
	}
	t.Log(o.Source.Error)
	wantNoLeftovers(t, source.Store)
	heal()
	handedOverOnce(t, a, b, copying.want(0).outcome())
	wantNoLeftovers(t, source.Store)
	goesOn(t, onA, a, b)
	wantSameHistory(t, a, b)
}
