package datadir_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// mix makes a request of every kind that etcd's applier knows and that needs no
// login.
func mix(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := func(i int) string { return fmt.Sprintf("mix/%d", i) }
	kept, err := c.Grant(ctx, 3600)
	must(err)
	revoked, err := c.Grant(ctx, 3600)
	must(err)
	var last int64
	for i := range 30 {
		_, err := c.Put(ctx, key(i), "1", clientv3.WithLease(kept.ID))
		must(err)
		_, err = c.Put(ctx, key(100+i), "1", clientv3.WithLease(revoked.ID))
		must(err)
		r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value(key(i)), "=", "1")).Then(
			clientv3.OpPut(key(i), "2", clientv3.WithIgnoreLease()), clientv3.OpPut(key(200+i), "2"), clientv3.OpGet(key(i)), clientv3.OpDelete(key(300+i)),
		).Commit()
		must(err)
		last = r.Header.Revision
	}
	_, err = c.Delete(ctx, key(0))
	must(err)
	_, err = c.Compact(ctx, last+1, clientv3.WithCompactPhysical()) // the deletion, or a writer's put
	must(err)
	_, err = c.Delete(ctx, key(20), clientv3.WithRange(key(25)))
	must(err)
	_, err = c.Put(ctx, key(21), "again")
	must(err)
	_, err = c.Revoke(ctx, revoked.ID)
	must(err)
	user := fmt.Sprintf("user-%x", rand.Uint64())
	_, err = c.RoleAdd(ctx, user)
	must(err)
	_, err = c.UserAdd(ctx, user, "secret")
	must(err)
	_, err = c.UserGrantRole(ctx, user, user)
	must(err)
}
