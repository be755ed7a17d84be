package history

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// rounds is how often a client makes each of its calls.
const rounds = 40

// used makes calls of all kinds at an etcd, and watches all of it.
func used(t *testing.T, h *History, owner string, e *etcdtest.Etcd) {
	t.Helper()
	client := e.Client(t)
	c := Client{History: h, Etcd: client, Tenancy: h.Tenancy(owner), Member: owner}
	for i := range rounds {
		key := "r/" + strconv.Itoa(i%3)
		read, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []func() (Op, error){
			func() (Op, error) { return c.Put(t.Context(), "w/"+owner+strconv.Itoa(i)) },
			func() (Op, error) { return c.Swap(t.Context(), key, read.Modified) },
			func() (Op, error) { return c.Swap(t.Context(), key, read.Modified) }, // it is refused
			func() (Op, error) { return c.Peek(t.Context(), key) },
		} {
			if _, err := call(); err != nil {
				t.Fatal(err)
			}
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for from := int64(1); short.Err() == nil; {
		from, _ = c.Watch(short, from) // what is compacted is left out
	}
}

func check(t *testing.T, h *History, c *clientv3.Client) (rules []Rule) {
	t.Helper()
	violations, err := h.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Log(v)
		rules = append(rules, v.Rule)
	}
	return rules
}

// One etcd is one, also if it moves. One that is copied while it serves on is two.
func TestRealEtcds(t *testing.T) {
	h := New()
	a := etcdtest.Start(t)
	used(t, h, "a", a)
	if broken := check(t, h, a.Client(t)); len(broken) > 0 {
		t.Errorf("one etcd breaks %v", broken)
	}
	dir := filepath.Join(t.TempDir(), "etcd")
	a.Stop(t)
	if err := os.CopyFS(dir, os.DirFS(a.DataDir)); err != nil {
		t.Fatal(err)
	}
	b := etcdtest.Start(t, etcdtest.WithDataDir(dir))
	used(t, h, "b", b)
	if broken := check(t, h, b.Client(t)); len(broken) > 0 {
		t.Errorf("one etcd that has moved breaks %v", broken)
	}
	a.Restart(t)
	late := Client{History: h, Etcd: a.Client(t), Tenancy: 1, Member: "a"}
	if _, err := late.Get(t.Context(), "r/0"); err != nil {
		t.Fatal(err)
	}
	if broken := check(t, h, b.Client(t)); !slices.Contains(broken, WentBack) {
		t.Errorf("the first of two etcds has answered a read, and that breaks %v", broken)
	}
	if _, err := late.Put(t.Context(), "w/late"); err != nil {
		t.Fatal(err)
	}
	if broken := check(t, h, b.Client(t)); !slices.Contains(broken, TwoOwners) || !slices.Contains(broken, Reused) || !slices.Contains(broken, Lost) {
		t.Errorf("two etcds that both write break %v", broken)
	}
}

// What is compacted was watched by somebody, or is overwritten, or is there.
func TestCompactedEtcd(t *testing.T) {
	h := New()
	e := etcdtest.Start(t)
	used(t, h, "a", e)
	if _, err := e.Client(t).Compact(t.Context(), e.Revision(t)-5); err != nil {
		t.Fatal(err)
	}
	used(t, h, "a", e)
	if broken := check(t, h, e.Client(t)); len(broken) > 0 {
		t.Errorf("an etcd that is compacted breaks %v", broken)
	}
}
