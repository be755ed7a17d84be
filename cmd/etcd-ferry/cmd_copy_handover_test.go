package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// origin is the source of a hand-over: a directory with one full snapshot.
type origin struct {
	t       *testing.T
	dir     string
	object  *syncobject.File[syncobject.Object]
	me      syncobject.Holder
	archive *archive.Archive
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	dir := t.TempDir()
	s := file.New(dir)
	o := &origin{t, dir, syncobject.NewFile(s), syncobject.Holder{ID: "a", Epoch: 1, Lineage: "la"}, archive.New(s)}
	o.save(100)
	_, _, err := syncobject.NewOwnerFile(s).Update(t.Context(), func(w syncobject.Owner) (syncobject.Owner, error) {
		return w.Hold(syncobject.Owner{
			ID: "a", Epoch: 1, Lineage: "la", ImplicitFencing: true,
			Lease: syncobject.Seconds(time.Second), Kill: syncobject.Seconds(100 * time.Millisecond), Watchdog: syncobject.Seconds(time.Millisecond),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *origin) save(revision int64) snapshot.Manifest {
	o.t.Helper()
	m, err := o.archive.Save(o.t.Context(), snapshot.Manifest{
		Kind: snapshot.Full, First: revision, Last: revision, Time: time.Now().Truncate(time.Second).UTC(), Lineage: "la", ClusterID: "c",
	}, bytes.NewReader([]byte("content")))
	if err != nil {
		o.t.Fatal(err)
	}
	return m
}

func (o *origin) step(f func(syncobject.Object) (syncobject.Object, error)) {
	o.t.Helper()
	if _, _, err := o.object.Update(o.t.Context(), f); err != nil {
		o.t.Error(err)
	}
}

// answer stores a final snapshot and names it.
func (o *origin) answer() {
	o.t.Helper()
	m := o.save(200)
	o.step(func(x syncobject.Object) (syncobject.Object, error) {
		x, err := x.Report(1, o.me, syncobject.SourceReport{Phase: syncobject.Fenced, Members: 1, Member: "m", At: time.Now()})
		if err != nil {
			return x, err
		}
		return x.Publish(1, o.me, syncobject.Set{
			ThroughRevision: 200, Final: true,
			Items: []syncobject.Item{{Name: m.Name, Kind: m.Kind, Size: m.StoredSize, SHA256: m.StoredSHA256, Revision: 200}},
		}, time.Now())
	})
}

// copyLine takes over from o.
func (o *origin) copyLine(ctx context.Context, to, id string, more ...string) ran {
	args := []string{
		"copy", "--source-store", "file://" + o.dir, "--store", "file://" + to, "--owner-id", id, "-o", "json",
		"--wait", "2s", "--store-slack", "0s", "--poll-period", "50ms", "--precopy-period", "50ms",
	}
	return runLine(ctx, append(args, more...)...)
}

func TestHandOverExitCodes(t *testing.T) {
	initiated := func(o *origin) {
		o.step(func(x syncobject.Object) (syncobject.Object, error) {
			return x.Initiate(syncobject.Request{Owner: o.me, At: time.Now()})
		})
	}
	for what, c := range map[string]struct {
		before func(o *origin)
		more   []string
		code   int
		says   string // on standard error
		result copier.Outcome
	}{
		"ready":        {func(o *origin) { initiated(o); o.answer() }, nil, 0, "", copier.Outcome{DecidedBy: "source", ThroughRevision: 200}},
		"wait too low": {nil, []string{"--wait", "1s"}, 2, "W(1−ρ) > (L + max(K, G))(1+ρ) + δ", copier.Outcome{}},
		"claimed": {func(o *origin) {
			o.step(func(x syncobject.Object) (syncobject.Object, error) {
				return x.Claim(syncobject.Claim{ID: "early bird", At: time.Now()})
			})
		}, nil, 3, "early bird", copier.Outcome{}},
		"no force": {nil, []string{"--no-force"}, 4, "--no-force", copier.Outcome{}},
		"aborted": {func(o *origin) {
			o.step(func(x syncobject.Object) (syncobject.Object, error) {
				return x.Claim(syncobject.Claim{ID: "b", At: time.Now()})
			})
			o.step(func(x syncobject.Object) (syncobject.Object, error) { return x.Abort(1, "no", time.Now()) })
		}, nil, 5, "--again", copier.Outcome{}},
		"forced": {nil, nil, 6, "losses", copier.Outcome{DecidedBy: "destination", Lossy: true, Forced: true, ThroughRevision: 100}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			if c.before != nil {
				c.before(o)
			}
			got := o.copyLine(t.Context(), t.TempDir(), "b", c.more...)
			if got.code != c.code || !strings.Contains(got.stderr, c.says) {
				t.Fatalf("exit code %d, want %d and %q:\n%s%s", got.code, c.code, c.says, got.stderr, got.stdout)
			}
			if c.result.DecidedBy == "" {
				return
			}
			var out copier.Outcome
			if err := json.Unmarshal([]byte(got.stdout), &out); err != nil {
				t.Fatalf("%v: %s", err, got.stdout)
			}
			r := c.result
			if out.DecidedBy != r.DecidedBy || out.Lossy != r.Lossy || out.Forced != r.Forced || out.ThroughRevision != r.ThroughRevision || out.Owner != "b" || out.Epoch != 2 {
				t.Errorf("outcome %+v", out)
			}
		})
	}
}

func TestHandOverUsage(t *testing.T) {
	two := []string{"copy", "--source-store", "file:///a", "--store", "file:///b"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--owner-id is missing"},
		{[]string{"--owner-id", "b", "--manual"}, "--owner-id and --manual exclude"},
		{[]string{"--owner-id", "b", "--latest"}, "go with --manual"},
		{[]string{"--owner-id", "b", "--dry-run"}, "go with --manual"},
		{[]string{"--owner-id", "b", "--force", "--no-force"}, "--force and --no-force"},
		{[]string{"--owner-id", "b", "--listen", "here"}, `--listen "here"`},
		{[]string{"--owner-id", "b", "--poll-period", "0s"}, "times must be above 0"},
	} {
		if got := runLine(t.Context(), append(two, c.args...)...); got.code != 2 || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: exit code %d, %s", c.args, got.code, got.stderr)
		}
	}
}

func TestReadinessOfCopyMode(t *testing.T) {
	o := newOrigin(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode, string(body)
	}
	until := func(what string, f func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !f(); {
			if time.Now().After(end) {
				t.Fatalf("not %s after 30 s", what)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan ran, 1)
	go func() { done <- o.copyLine(ctx, t.TempDir(), "b", "--wait", "1h", "--listen", address) }()
	until("waiting", func() bool {
		_, body := get("/copyop/status")
		return strings.Contains(body, `"state":"Waiting"`)
	})
	if code, body := get("/healthz"); code != 503 || !strings.Contains(body, "Waiting") {
		t.Errorf("/healthz: %d %s", code, body)
	}
	if code, _ := get("/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	o.answer()
	until("ready", func() bool {
		code, _ := get("/healthz")
		return code == 200
	})
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, `etcd_ferry_copy_state{state="Done"} 1`) || !strings.Contains(body, "etcd_ferry_copy_lossy 0") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if x, err := o.object.Read(t.Context()); err != nil || x.Status != syncobject.Done {
		t.Errorf("ready before the commit point: %+v, %v", x, err)
	}
	select {
	case got := <-done:
		t.Errorf("it ended when it was done: %d %s", got.code, got.stderr)
	default:
	}
	cancel()
	if got := <-done; got.code != 0 || !strings.Contains(got.stdout, `"throughRevision": 200`) {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stderr, got.stdout)
	}
	if got := o.copyLine(t.Context(), t.TempDir(), "late", "--listen", address, "--exit"); got.code != 3 {
		t.Errorf("another destination: exit code %d: %s", got.code, got.stderr)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRestoreWaitsForTheHandOver(t *testing.T) {
	o, to := newOrigin(t), t.TempDir()
	if got := o.copyLine(t.Context(), to, "b", "--no-force"); got.code != 4 {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	got := runLine(t.Context(), "restore", "--store", "file://"+to, "--data-dir", t.TempDir()+"/data")
	if got.code != 1 || !strings.Contains(got.stderr, "an adoption is in progress by b") {
		t.Errorf("restore: exit code %d: %s", got.code, got.stderr)
	}
}

func TestNothingSoundSaysWhereToLook(t *testing.T) {
	o := newOrigin(t)
	manifests, err := filepath.Glob(filepath.Join(o.dir, "*", "full-*.json"))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	if err := os.WriteFile(manifests[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"restore", "--data-dir", to}, {"compact"}} {
		got := runLine(t.Context(), append(args, "--store", "file://"+o.dir)...)
		if got.code != 8 || !strings.Contains(got.stderr, "etcd-ferry verify") {
			t.Errorf("%s: exit code %d: %s", args[0], got.code, got.stderr)
		}
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data dir: %v", err)
	}
}
