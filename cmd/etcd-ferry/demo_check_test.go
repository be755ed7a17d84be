package main

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// What the demo calls lost must be found, whatever is lost.
func TestCheckFindsWhatIsLost(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.WithoutFsync()).Client(t)
	w := &writer{load: newLoad(c, c)}
	var lease clientv3.LeaseID
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lost := func() int64 {
		t.Helper()
		f, err := w.check(t.Context(), c)
		must(err)
		return f.lost
	}
	write := func() {
		t.Helper()
		var err error
		lease, err = w.grant(t.Context())
		must(err)
		must(w.put(t.Context(), "with lease", lease))
		must(w.put(t.Context(), "plain", 0))
		must(w.put(t.Context(), "gone", 0))
		must(w.remove(t.Context(), "gone"))
	}
	for name, damage := range map[string]func() error{
		"key":                func() error { _, err := c.Delete(t.Context(), "plain"); return err },
		"newest version":     func() error { _, err := c.Put(t.Context(), "plain", "another"); return err },
		"deletion":           func() error { _, err := c.Put(t.Context(), "gone", "back again"); return err },
		"lease with its key": func() error { _, err := c.Revoke(t.Context(), lease); return err },
		"attachment to lease": func() error {
			_, err := c.Put(t.Context(), "with lease", "kept without it")
			return err
		},
	} {
		write()
		if n := lost(); n != 0 {
			t.Fatalf("%d lost before anything was", n)
		}
		must(damage())
		if lost() == 0 {
			t.Errorf("the loss of a %s is not found", name)
		}
	}
	write()
	_, err := c.Put(t.Context(), "never acknowledged", "to this client")
	must(err)
	if lost() == 0 {
		t.Error("a key from nowhere is not found")
	}
}
