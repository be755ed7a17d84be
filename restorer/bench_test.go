package restorer_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store/file"
)

const (
	benchEvents = 500_000
	benchValue  = 1 << 10 // bytes
)

// BenchmarkRestore applies events of 1 KiB in deltas of several sizes.
func BenchmarkRestore(b *testing.B) {
	for _, size := range []int64{50_000, 1000, 100} {
		b.Run(fmt.Sprintf("deltas=%d", benchEvents/size), func(b *testing.B) {
			f := forgeFile(b)
			f.full(b, 10, nil)
			for first := int64(11); first <= benchEvents; first += size {
				f.deltaWith(b, first, first+size-1, func(_ *delta.Encoder, e *mvccpb.Event) { e.Kv.Value = noise(e.Kv.ModRevision) })
			}
			plan := planOf(b, f.Archive, restorer.Options{})
			b.SetBytes(plan.Plain)
			for b.Loop() {
				dir := b.TempDir()
				if _, err := restorer.New(f.Archive).Do(b.Context(), plan, filepath.Join(dir, "etcd")); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = os.RemoveAll(dir)
				b.StartTimer()
			}
			b.ReportMetric(float64(plan.Events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkBareAppend is the upper bound: bbolt alone, with the same bytes in
// transactions of the same size, and one sync at the end.
func BenchmarkBareAppend(b *testing.B) {
	values := make([][]byte, benchEvents)
	for i := range values {
		kv := change(int64(i)).Kv
		kv.Value = noise(int64(i))
		var err error
		if values[i], err = proto.Marshal(kv); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(values) * len(values[0])))
	for b.Loop() {
		dir := b.TempDir()
		if err := appendAll(filepath.Join(dir, "db"), values); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = os.RemoveAll(dir)
		b.StartTimer()
	}
	b.ReportMetric(benchEvents*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func appendAll(path string, values [][]byte) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 4 << 30, NoStatistics: true,
	})
	if err != nil {
		return err
	}
	for at := 0; at < len(values); {
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(schema.Key.Name())
			if err != nil {
				return err
			}
			bucket.FillPercent = 1
			for size := 0; at < len(values) && size < restorer.DefaultTxSize; at++ {
				size += len(values[at])
				if err := bucket.Put(revisionKey(int64(at+2), 0), values[at]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := db.Sync(); err != nil {
		return err
	}
	return db.Close()
}

// noise returns a value that is half random, and the same for the same seed.
func noise(seed int64) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	value := make([]byte, 0, benchValue)
	for len(value) < benchValue/2 {
		value = binary.NativeEndian.AppendUint64(value, rng.Uint64())
	}
	return append(value, bytes.Repeat([]byte("text"), benchValue/8)...)
}

// forgeFile is forge with the archive on disk.
func forgeFile(b *testing.B) *forged {
	b.Helper()
	return &forged{Archive: archive.New(file.New(b.TempDir()))}
}
