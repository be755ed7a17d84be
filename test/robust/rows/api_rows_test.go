package rows

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// TestRow07ManyInitiates: of fifty at once one wants the hand-over, and the others
// learn that it is wanted.
func TestRow07ManyInitiates(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	across, line := net.bucket(t).through()
	a := deploy(t, "a", across).ready()
	a.fill(2 << 10)
	heal := net.throttle(t, line, 50) // it stays pending
	var mu sync.Mutex
	statuses, operations := map[int]int{}, map[string]int{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			status, body := ask(t, http.MethodPost, a.members[0].url("/copyop/initiate"))
			var o syncobject.Object
			if err := json.Unmarshal([]byte(body), &o); err != nil {
				t.Errorf("%d %s: %v", status, body, err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			operations[o.OperationID]++
		})
	}
	all.Wait()
	if statuses[http.StatusCreated] != 1 || statuses[http.StatusOK] != 49 || len(operations) != 1 {
		t.Errorf("answers %v, operations %v", statuses, operations)
	}
	o := across.object(t)
	if o.Generation != 1 || operations[o.OperationID] != 50 {
		t.Errorf("%+v", o)
	}
	if status, body := ask(t, http.MethodPost, a.members[0].url("/copyop/initiate"), `{"operationID":"another"}`); status != http.StatusConflict || !strings.Contains(body, o.OperationID) {
		t.Errorf("another operation: %d %s", status, body)
	}
	heal()
	a.until(server.Ceded)
	if later := across.object(t); later.Serial <= o.Serial || later.OperationID != o.OperationID || later.Status != syncobject.Ready {
		t.Errorf("%+v", later)
	}
}

// TestRow09Status asks for it before anything is known, and all through a
// hand-over.
func TestRow09Status(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	heal := net.cut(t, line)
	a := deploy(t, "a", across, func(d *deployment) { d.Flags = []string{"--poll-period=10s"} })
	m := a.members[0]
	eventually(t, "an answer", func() bool { status, _ := m.progress(t, ""); return status != 0 })
	if status, p := m.progress(t, ""); status != http.StatusServiceUnavailable || p.Role != server.Unknown || p.LeaseRemaining != 0 {
		t.Errorf("before the first read: %d %+v", status, p)
	}
	if status, p := m.progress(t, "?fresh=true"); status != http.StatusServiceUnavailable || p.LastError == "" {
		t.Errorf("fresh without a store: %d %+v", status, p)
	}
	heal()
	a.ready()
	if status, p := m.progress(t, ""); status != http.StatusOK || p.Role != server.Owner || p.Pending || p.LeaseRemaining <= 0 {
		t.Errorf("an owner: %d %+v", status, p)
	}

	ended := make(chan []server.Role)
	go func() { ended <- m.roles(t) }()
	// Somebody else wants it: only a read can tell.
	direct := in.at(net.server.URL)
	if _, err := direct.direct.Swap(t.Context(), syncobject.ObjectName, "", []byte(`{"status":"Initial"}`)); err != nil {
		t.Fatal(err)
	}
	if status, p := m.progress(t, "?fresh=true"); status != http.StatusOK || !p.Initiated || p.Generation != 1 {
		t.Errorf("fresh: %d %+v", status, p)
	}
	order := []server.Role{server.Owner, server.Fencing, server.Snapshotting, server.Publishing, server.Ceded}
	if seen := <-ended; !slices.IsSortedFunc(seen, func(a, b server.Role) int {
		return slices.Index(order, a) - slices.Index(order, b)
	}) || slices.Contains(seen, server.Unknown) {
		t.Errorf("roles %v", seen)
	}
}

// roles are those that a member goes through until it is Ceded.
func (m *member) roles(t *testing.T) (seen []server.Role) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); wait(t, 5*time.Millisecond) {
		_, p := m.progress(t, "")
		if len(seen) == 0 || seen[len(seen)-1] != p.Role {
			seen = append(seen, p.Role)
		}
		if p.Role == server.Ceded {
			return seen
		}
	}
	t.Error("it is never Ceded")
	return seen
}

// TestRow10BareObject: another implementation of GEP-7 wants the hand-over, and
// takes it, with nothing but a status.
func TestRow10BareObject(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]container{"file": newFolder(t), "S3": onS3(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := deploy(t, "a", in).ready()
			onA := writeTo(t, a)
			onA.more(t, 300)
			put := func(version string) string {
				var o struct{ Status string }
				data, at, err := in.direct.Read(t.Context(), syncobject.ObjectName)
				if err == nil {
					err = json.Unmarshal(data, &o)
				}
				if err != nil && version == "" {
					_, err = in.direct.Swap(t.Context(), syncobject.ObjectName, "", []byte(`{"status":"Initial"}`))
				} else if err == nil && version != "" {
					_, err = in.direct.Swap(t.Context(), syncobject.ObjectName, at, []byte(version))
				}
				if err != nil {
					t.Fatal(err)
				}
				return o.Status
			}
			put("")
			eventually(t, "Ready", func() bool { return put("") == "Ready" })
			a.until(server.Ceded)
			onA.refused(t)
			begin(t, slices.Concat([]string{"copy", "--manual", "--latest"}, in.flags("source-store"), newFolder(t).flags("store"))...).want(0)
			put(`{"status":"Done"}`)
			if _, p := a.members[0].progress(t, "?fresh=true"); p.Status != syncobject.Done {
				t.Errorf("%+v", p)
			}
			onA.refused(t)
			a.until(server.Ceded)
			a.wantDown()
			onA.stop()
			restored := filepath.Join(t.TempDir(), "etcd")
			begin(t, append([]string{"restore", "--data-dir", restored}, in.flags("store")...)...).want(0)
			onA.wantKeptIn(t, restored)
		})
	}
}

// TestRow11UploadLongerThanW: a source that is fenced and lives is waited for.
func TestRow11UploadLongerThanW(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	across, line := in.through()
	a := deploy(t, "a", across, hastily).ready()
	onA := writeTo(t, a)
	a.fill(2 << 10)
	onA.more(t, 300)
	source := *a
	source.Store = in.at(net.server.URL)
	const w = 12 * time.Second
	heal := net.throttle(t, line, 100) // twenty seconds
	b := newDeployment(t, "b", newFolder(t), 1)
	done := source.copyTo("b", b.Store, fmt.Sprint("--wait=", w), "--heartbeat-timeout=60s", "--max-wait=10m").want(0).outcome()
	heal()
	if done.Lossy || done.Forced || done.WaitedSeconds < w.Seconds() {
		t.Errorf("%+v", done)
	}
	b.takeOver()
	onA.stop()
	onA.wantKept(t, b)
}
