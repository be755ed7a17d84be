package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const (
	restoreEvents   = 500_000
	restorePerDelta = 50_000
	restoreValue    = 1 << 10
	restorePerTx    = 4_000 // events, about what the restorer puts into one transaction
	replayEvents    = 20_000
	restoreRounds   = 3
)

// BenchmarkRestore restores a small full and 500,000 events of 1 KiB, and
// appends the same keys and values to an empty bbolt file, which is the least
// that a restore must do. The replay puts the same values through a client into
// an etcd that never calls fsync, one revision after the other as their order
// demands.
func BenchmarkRestore(b *testing.B) {
	bin := ferry(b)
	dir := b.TempDir()
	container := filepath.Join(dir, "store")
	base := baseSnapshot(b, bin, container)
	events := history(base.Last + 1)
	saveDeltas(b, container, base, events)
	replay := replayRate(b, events[:replayEvents])
	for b.Loop() {
		var restores, appends []time.Duration
		var rss []int64
		for i := range restoreRounds {
			target := filepath.Join(dir, "restored-"+strconv.Itoa(i))
			restored := run(b, bin, "restore", "--store", "file://"+container, "--data-dir", target)
			restores, rss = append(restores, restored.wall), append(rss, restored.rss)
			appends = append(appends, bareAppend(b, filepath.Join(dir, "bare-"+strconv.Itoa(i)), events))
		}
		rate := restoreEvents / median(restores).Seconds()
		b.Logf("restore %v (%.0f events/s), bare append %v, replay %.0f events/s", median(restores), rate, median(appends), replay)
		b.ReportMetric(median(appends).Seconds()/median(restores).Seconds(), "of-bare-append")
		b.ReportMetric(rate/replay, "x-replay")
		b.ReportMetric(float64(median(rss))/mib, "MiB-rss")
	}
	tellLoad(b)
}

// baseSnapshot stores a full of an etcd that holds next to nothing.
func baseSnapshot(b *testing.B, bin, container string) snapshot.Manifest {
	b.Helper()
	etcd := etcdtest.Start(b, etcdtest.WithVersion("3.7.3"), etcdtest.WithoutFsync())
	fill(b, etcd.Client(b), 50, restoreValue)
	run(b, bin, "snapshot", "full", "--store", "file://"+container, "--etcd-endpoints", etcd.Endpoint())
	listing, err := archive.New(file.New(container)).List(b.Context())
	if err != nil || len(listing.Manifests) != 1 {
		b.Fatalf("%+v, %v", listing, err)
	}
	return listing.Manifests[0]
}

// history makes one put per revision, from revision first on.
func history(first int64) []*mvccpb.Event {
	rng := rand.New(rand.NewPCG(3, 4))
	events := make([]*mvccpb.Event, restoreEvents)
	for i := range events {
		revision := first + int64(i)
		events[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{
			Key:            fmt.Appendf(nil, "/registry/leases/node-%07d", i),
			CreateRevision: revision, ModRevision: revision, Version: 1,
			Value: object(rng, restoreValue),
		}}
	}
	return events
}

func saveDeltas(b *testing.B, container string, base snapshot.Manifest, events []*mvccpb.Event) {
	b.Helper()
	a := archive.New(file.New(container))
	for len(events) > 0 {
		m, buffer := base, sealed(b, events[:restorePerDelta])
		m.Kind, m.First, m.Last = snapshot.Delta, events[0].Kv.ModRevision, events[restorePerDelta-1].Kv.ModRevision
		m.Events = restorePerDelta
		if _, err := a.SaveBuffer(b.Context(), m, buffer); err != nil {
			b.Fatal(err)
		}
		events = events[restorePerDelta:]
	}
}

func sealed(b *testing.B, events []*mvccpb.Event) *archive.Buffer {
	b.Helper()
	buffer, err := archive.NewBuffer()
	if err != nil {
		b.Fatal(err)
	}
	e := delta.NewEncoder(buffer, events[0].Kv.ModRevision)
	for _, event := range events {
		if err := e.Event(event); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := e.Close(); err != nil {
		b.Fatal(err)
	}
	if err := buffer.Close(); err != nil {
		b.Fatal(err)
	}
	return buffer
}

// bareAppend writes what etcd's key bucket would hold, with one sync at the
// end. The values are marshalled beforehand.
func bareAppend(b *testing.B, path string, events []*mvccpb.Event) time.Duration {
	b.Helper()
	values := make([][]byte, len(events))
	for i, event := range events {
		var err error
		if values[i], err = proto.Marshal(event.Kv); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		NoSync: true, NoFreelistSync: true, NoGrowSync: true,
		FreelistType: bbolt.FreelistMapType, InitialMmapSize: 10 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < len(events); from += restorePerTx {
		end := min(from+restorePerTx, len(events))
		if err := db.Update(func(tx *bbolt.Tx) error { return appendAll(tx, events[from:end], values[from:end]) }); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func appendAll(tx *bbolt.Tx, events []*mvccpb.Event, values [][]byte) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte("key"))
	if err != nil {
		return err
	}
	bucket.FillPercent = 0.9
	for i, event := range events {
		key := binary.BigEndian.AppendUint64(nil, uint64(event.Kv.ModRevision))
		key = binary.BigEndian.AppendUint64(append(key, '_'), 0)
		if err := bucket.Put(key, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// replayRate returns events per second.
func replayRate(b *testing.B, events []*mvccpb.Event) float64 {
	b.Helper()
	etcd := etcdtest.Start(b, etcdtest.WithVersion("3.7.3"), etcdtest.WithoutFsync())
	client := etcd.Client(b)
	began := time.Now()
	for _, event := range events {
		if _, err := client.Put(b.Context(), string(event.Kv.Key), string(event.Kv.Value)); err != nil {
			b.Fatal(err)
		}
	}
	return float64(len(events)) / time.Since(began).Seconds()
}
