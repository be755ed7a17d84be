package bench

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const (
	fullKeys   = 250_000
	fullValue  = 4 << 10 // bytes
	fullRounds = 5
)

// BenchmarkFull streams a database of about 1 GiB into a directory, with
// compression, digests and manifest, and the same with etcdctl snapshot save,
// which does none of that.
func BenchmarkFull(b *testing.B) {
	bin := ferry(b)
	etcd := etcdtest.Start(b, etcdtest.WithVersion("3.7.3"), etcdtest.WithoutFsync())
	client := etcd.Client(b)
	fill(b, client, fullKeys, fullValue)
	status, err := client.Status(b.Context(), etcd.Endpoint())
	if err != nil {
		b.Fatal(err)
	}
	etcdctl := etcdtest.Tool(b, "3.7.3", "etcdctl")
	for b.Loop() {
		var ours, theirs []time.Duration
		var rss []int64
		var stored int64
		for range fullRounds {
			dir := b.TempDir()
			saved := run(b, etcdctl, "--endpoints", etcd.Endpoint(), "snapshot", "save", filepath.Join(dir, "snapshot.db"))
			theirs = append(theirs, saved.wall)
			shipped := run(b, bin, "snapshot", "full", "--store", "file://"+filepath.Join(dir, "store"), "--etcd-endpoints", etcd.Endpoint())
			ours, rss = append(ours, shipped.wall), append(rss, shipped.rss)
			stored = size(b, filepath.Join(dir, "store"))
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}
		b.Logf("%d MiB: etcdctl snapshot save %v, etcd-ferry snapshot full %v", status.DbSize/mib, median(theirs), median(ours))
		b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "x-of-etcdctl")
		b.ReportMetric(float64(stored)/float64(status.DbSize), "stored/plain")
		b.ReportMetric(float64(median(rss))/mib, "MiB-rss")
	}
	tellLoad(b)
}

// fill puts n objects of a size in transactions, from 8 clients.
func fill(b *testing.B, client *clientv3.Client, n, size int) {
	b.Helper()
	const perTxn, writers = 50, 8
	g, ctx := errgroup.WithContext(b.Context())
	for w := range writers {
		g.Go(func() error {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := w * perTxn; i < n; i += writers * perTxn {
				if err := putAll(ctx, client, rng, i, perTxn, size); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func putAll(ctx context.Context, client *clientv3.Client, rng *rand.Rand, from, n, size int) error {
	ops := make([]clientv3.Op, n)
	for i := range ops {
		ops[i] = clientv3.OpPut(fmt.Sprintf("/registry/pods/team/app-%08d", from+i), string(object(rng, size)))
	}
	_, err := client.Txn(ctx).Then(ops...).Commit()
	return err
}

// size returns the bytes below dir.
func size(b *testing.B, dir string) int64 {
	b.Helper()
	var n int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}
