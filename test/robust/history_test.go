package robust

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestWholeHistoryComesBack lets happen to an etcd what can happen to one, with
// TLS and access control, while the sidecar captures it, and compares what is
// restored by hash, at several compacted revisions and at one in the middle.
func TestWholeHistoryComesBack(t *testing.T) {
	bin := ferry(t)
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t, bin, version)
			h.happen()
			h.compare()
		})
	}
}

const (
	hugeRequest = 20_000_000 // bytes
	manyKeys    = 50_000
	longTTL     = 3600 // seconds
	shortTTL    = 2
)

type history struct {
	*testing.T
	bin, container string
	source         *etcdtest.Etcd
	client         *clientv3.Client

	long, ending clientv3.LeaseID // that outlive the backup
	middle       int64            // a revision to go back to
	compactions  []int64          // to compare after, ascending
}

func newHistory(t *testing.T, bin, version string) *history {
	t.Helper()
	source := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithTLS(), etcdtest.WithoutFsync(),
		etcdtest.WithArgs("--max-request-bytes="+strconv.Itoa(hugeRequest), "--max-txn-ops="+strconv.Itoa(manyKeys)))
	source.EnableAuth(t)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{source.Endpoint()}, TLS: source.TLS.Config(t),
		Username: source.Auth.User, Password: source.Auth.Password,
		MaxCallSendMsgSize: hugeRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &history{T: t, bin: bin, container: filepath.Join(t.TempDir(), "container"), source: source, client: client}
}

// args are flags that reach the source.
func (h *history) args(more ...string) []string {
	return append(more, "--store", "file://"+h.container, "--etcd-endpoints", h.source.Endpoint(),
		"--etcd-cacert", h.source.TLS.CAFile, "--etcd-cert", h.source.TLS.CertFile, "--etcd-key", h.source.TLS.KeyFile,
		"--etcd-user-file", h.source.Auth.File)
}

func (h *history) happen() {
	sidecar := start(h.T, h.bin, h.args("server", "--listen", "127.0.0.1:0", "--delta-period", "200ms", "--full-schedule", "")...)
	awaitChain(h.T, h.container)
	writer := etcdtest.StartWriter(h.T, h.client, "written/", 4)

	h.bigRevisions()
	h.leases()
	h.compact(h.source.Revision(h.T) - 100)
	h.defragment()
	writer.WaitAcked(h.T, len(writer.Acked())+200)
	h.middle = h.source.Revision(h.T)
	_, err := h.client.UserAdd(h.Context(), "somebody", "new") // no event tells of it: a full must
	h.must(err)
	writer.WaitAcked(h.T, len(writer.Acked())+1000)
	h.ending = h.lease(shortTTL+10, "ending/", 5)
	writer.Stop()

	sidecar.kill(h.T)
	run(h.T, h.bin, h.args("snapshot", "delta")...)
	now := h.source.Revision(h.T)
	_, compacted := h.source.HashKV(h.T, now)
	h.compactions = []int64{compacted, h.middle - 10, now - 500, now}
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// bigRevisions makes revisions of many keys, of many bytes, and of many
// tombstones.
func (h *history) bigRevisions() {
	many := make([]clientv3.Op, manyKeys)
	for i := range many {
		many[i] = clientv3.OpPut(fmt.Sprintf("many/%05d", i), "v")
	}
	_, err := h.client.Txn(h.Context()).Then(many...).Commit()
	h.must(err)
	huge := make([]clientv3.Op, 10)
	for i := range huge {
		huge[i] = clientv3.OpPut(fmt.Sprintf("huge/%d", i), strings.Repeat(strconv.Itoa(i), 1<<20))
	}
	_, err = h.client.Txn(h.Context()).Then(huge...).Commit()
	h.must(err)
	_, err = h.client.Delete(h.Context(), "many/", clientv3.WithPrefix())
	h.must(err)
	_, err = h.client.Txn(h.Context()).Then( // overwrite and delete in one revision
		clientv3.OpPut("huge/0", "small"), clientv3.OpDelete("huge/1"), clientv3.OpPut("many/00000", "back")).Commit()
	h.must(err)
}

// leases makes one that lasts, and one that ends and takes its keys along.
func (h *history) leases() {
	h.long = h.lease(longTTL, "leased/", 100)
	h.lease(shortTTL, "brief/", 100)
	_, err := h.client.Grant(h.Context(), longTTL) // with no key
	h.must(err)
	for {
		r, err := h.client.Get(h.Context(), "brief/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		h.must(err)
		if r.Count == 0 {
			return
		}
	}
}

// lease attaches the keys in one revision: a slow machine may take longer than a
// short TTL to send many requests.
func (h *history) lease(ttl int64, prefix string, keys int) clientv3.LeaseID {
	granted, err := h.client.Grant(h.Context(), ttl)
	h.must(err)
	puts := make([]clientv3.Op, keys)
	for i := range puts {
		puts[i] = clientv3.OpPut(prefix+strconv.Itoa(i), "", clientv3.WithLease(granted.ID))
	}
	_, err = h.client.Txn(h.Context()).Then(puts...).Commit()
	h.must(err)
	return granted.ID
}

func (h *history) compact(revision int64) {
	_, err := h.client.Compact(h.Context(), revision, clientv3.WithCompactPhysical())
	h.must(err)
}

func (h *history) defragment() {
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	_, err := h.client.Defragment(ctx, h.source.Endpoint())
	h.must(err)
}

// compare restores the newest state and the one in the middle.
func (h *history) compare() {
	newest := h.restored()
	now := h.source.Revision(h.T)
	if got := newest.Revision(h.T); got != now {
		h.Fatalf("restored to revision %d, the source is at %d", got, now)
	}
	h.compareLeases(newest)
	middle := h.restored("--revision", strconv.FormatInt(h.middle, 10))
	if got := middle.Revision(h.T); got != h.middle {
		h.Errorf("restored to revision %d, asked for %d", got, h.middle)
	}
	for _, revision := range h.compactions {
		for _, e := range []*etcdtest.Etcd{h.source, newest, middle} {
			compactTo(h.T, e, revision)
		}
		h.sameHash(newest, now, revision)
		if revision < h.middle {
			h.sameHash(middle, h.middle, revision)
		}
	}
}

func (h *history) restored(args ...string) *etcdtest.Etcd {
	dir := filepath.Join(h.TempDir(), "restored")
	run(h.T, h.bin, append([]string{"restore", "--store", "file://" + h.container, "--data-dir", dir}, args...)...)
	e := etcdtest.Start(h.T, etcdtest.WithVersion(h.source.Version), etcdtest.WithTLS(), etcdtest.WithDataDir(dir), etcdtest.WithoutFsync())
	e.Auth = h.source.Auth // the users were restored too
	return e
}

// compactTo compacts e unless it is compacted that far, or has not come so far.
func compactTo(t *testing.T, e *etcdtest.Etcd, revision int64) {
	t.Helper()
	_, err := e.Client(t).Compact(t.Context(), revision, clientv3.WithCompactPhysical())
	if err != nil && !strings.Contains(err.Error(), "compacted") && !strings.Contains(err.Error(), "future revision") {
		t.Fatal(err)
	}
}

func (h *history) sameHash(e *etcdtest.Etcd, revision, compacted int64) {
	want, from := h.source.HashKV(h.T, revision)
	got, restoredFrom := e.HashKV(h.T, revision)
	if got != want || from != restoredFrom {
		h.Errorf("hash at revision %d, compacted to %d: restored %d (from %d), source %d (from %d)", revision, compacted, got, restoredFrom, want, from)
	}
}

// compareLeases looks at TTL and keys of the leases, and waits for the one that
// has to end.
func (h *history) compareLeases(e *etcdtest.Etcd) {
	client := e.Client(h.T)
	long, err := client.TimeToLive(h.Context(), h.long, clientv3.WithAttachedKeys())
	h.must(err)
	if long.GrantedTTL != longTTL || len(long.Keys) != 100 {
		h.Errorf("the lease has TTL %d and %d keys", long.GrantedTTL, len(long.Keys))
	}
	ending, err := client.TimeToLive(h.Context(), h.ending, clientv3.WithAttachedKeys())
	h.must(err)
	if ending.GrantedTTL != shortTTL+10 || len(ending.Keys) != 5 {
		h.Errorf("the lease that was about to end has TTL %d and %d keys", ending.GrantedTTL, len(ending.Keys))
	}
}
