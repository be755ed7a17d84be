package restorer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// TestBrokenSnapshots restores what is not what it should be: the error says
// so, and the data dir stays as it was.
func TestBrokenSnapshots(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*testing.T, *forged, *restorer.Plan)
		class error
		says  string
	}{
		{"a flipped bit in the full", func(t *testing.T, f *forged, p *restorer.Plan) {
			f.replace(t, p.Chain.Full.Name, flipped(f.object(t, p.Chain.Full)))
		}, archive.ErrCorrupt, "full-"},
		{"a flipped bit in a delta", func(t *testing.T, f *forged, p *restorer.Plan) {
			f.replace(t, p.Chain.Deltas[1].Name, flipped(f.object(t, p.Chain.Deltas[1])))
		}, archive.ErrCorrupt, "delta-"},
		{"a truncated full", func(t *testing.T, f *forged, p *restorer.Plan) {
			object := f.object(t, p.Chain.Full)
			f.replace(t, p.Chain.Full.Name, object[:len(object)/2])
		}, archive.ErrCorrupt, "full-"},
		{"a truncated delta", func(t *testing.T, f *forged, p *restorer.Plan) {
			object := f.object(t, p.Chain.Deltas[2])
			f.replace(t, p.Chain.Deltas[2].Name, object[:len(object)-1])
		}, archive.ErrCorrupt, "delta-"},
		{"two deltas swapped", func(t *testing.T, f *forged, p *restorer.Plan) {
			a, b := p.Chain.Deltas[0], p.Chain.Deltas[1]
			contentA, contentB := f.object(t, a), f.object(t, b)
			f.replace(t, a.Name, contentB)
			f.replace(t, b.Name, contentA)
		}, archive.ErrCorrupt, "delta-"},
		{"a delta that is gone", func(t *testing.T, f *forged, p *restorer.Plan) {
			f.replace(t, p.Chain.Deltas[1].Name, nil)
		}, archive.ErrCorrupt, "missing"},
		{"a full with a wrong trailer", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Full = f.saveFull(t, 10, append(database(t, 10, nil), make([]byte, 32)...))
		}, archive.ErrCorrupt, "sha256 that etcd appended"},
		{"a full without a trailer", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Full = f.saveFull(t, 10, database(t, 10, nil))
		}, archive.ErrCorrupt, "does not end with the sha256"},
		{"a full that is no database", func(t *testing.T, f *forged, p *restorer.Plan) {
			noise := make([]byte, 64<<10)
			p.Chain.Full = f.saveFull(t, 10, append(noise, digest(noise)...))
		}, archive.ErrCorrupt, "full-"},
		{"a full with half of its pages", func(t *testing.T, f *forged, p *restorer.Plan) {
			half := database(t, 5000, nil)
			half = half[:len(half)/8192*4096]
			p.Chain.Full = f.saveFull(t, 10, append(half, digest(half)...))
		}, archive.ErrCorrupt, "full-"},
		{"a full without keys", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Full = f.full(t, 10, func(tx *bbolt.Tx) {
				if err := tx.DeleteBucket(schema.Key.Name()); err != nil {
					t.Fatal(err)
				}
			})
		}, archive.ErrCorrupt, "full-"},
		{"a full of another revision than it says", func(t *testing.T, f *forged, p *restorer.Plan) {
			content := database(t, 11, nil)
			p.Chain.Full = f.saveFull(t, 10, append(content, digest(content)...))
		}, archive.ErrCorrupt, "it is at revision 11, its manifest says 10 to 10"},
		{"a delta of another range than it says", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Deltas[2].Last++
		}, archive.ErrCorrupt, "its manifest says"},
		{"a delta left out", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Deltas = slices.Delete(p.Chain.Deltas, 1, 2)
		}, snapshot.ErrGap, "it goes on with revision 31.0"},
		{"an end before the plan's", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Chain.Deltas = p.Chain.Deltas[:2]
		}, archive.ErrCorrupt, "the plan was 40"},
		{"a snapshot of a newer etcd than it says", func(t *testing.T, f *forged, p *restorer.Plan) {
			p.Options.EtcdVersion = "3.6"
			p.Chain.Full = f.full(t, 10, func(tx *bbolt.Tx) {
				put(t, tx, schema.Meta.Name(), schema.MetaStorageVersionName, []byte("3.7.0"))
			})
			p.Chain.Full.EtcdVersion = "3.6.0"
		}, restorer.ErrVersion, "use etcd 3.7 or newer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := forge()
			f.full(t, 10, nil)
			f.delta(t, 11, 20)
			f.delta(t, 21, 30)
			f.delta(t, 31, 40)
			plan := planOf(t, f.Archive, restorer.Options{})
			test.spoil(t, f, &plan)
			dir := t.TempDir()
			dataDir := filepath.Join(dir, "etcd")
			old := filepath.Join(dataDir, "member", "old")
			if err := os.MkdirAll(old, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := restorer.New(f.Archive).Do(t.Context(), plan, dataDir)
			ofClass := errors.Is(err, test.class) || test.class == archive.ErrCorrupt && errors.Is(err, delta.ErrCorrupt)
			if !ofClass || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v saying %q", err, test.class, test.says)
			}
			if _, err := os.Stat(old); err != nil {
				t.Error("the data dir has changed")
			}
			onlyThere(t, dir, "etcd")
		})
	}
}

func flipped(content []byte) []byte {
	content[len(content)*2/3] ^= 0x10
	return content
}

// onlyThere checks what is in a folder.
func onlyThere(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("in %s there is %q, want %q", dir, got, names)
	}
}

// TestInterrupted ends the context at several points of a restore.
func TestInterrupted(t *testing.T) {
	f := forge()
	f.full(t, 10, nil)
	f.delta(t, 11, 10_000)
	f.delta(t, 10_001, 20_000)
	plan := planOf(t, f.Archive, restorer.Options{})
	for _, share := range []float64{0, 0.01, 0.3, 0.9, 1} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		r := restorer.New(f.Archive)
		r.Progress = func(done, total int64) {
			if float64(done) >= share*float64(total) {
				cancel()
			}
		}
		if _, err := r.Do(ctx, plan, filepath.Join(dir, "etcd")); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled after %v: %v", share, err)
		}
		onlyThere(t, dir)
		cancel()
	}
}

// TestOverlap restores deltas that begin before the end of what comes before
// them, and reports progress to the last byte.
func TestOverlap(t *testing.T) {
	t.Parallel()
	f := forge()
	f.full(t, 10, nil)
	f.delta(t, 5, 12)
	f.delta(t, 9, 20)
	f.delta(t, 13, 30)
	plan := planOf(t, f.Archive, restorer.Options{})
	dir := t.TempDir()
	r := restorer.New(f.Archive)
	var done, total int64
	r.Progress = func(d, of int64) { done, total = d, of }
	result, err := r.Do(t.Context(), plan, filepath.Join(dir, "etcd"))
	if err != nil || result.Revision != 30 || result.Events != 20 {
		t.Fatalf("restored %+v, %v; want 20 events up to revision 30", result, err)
	}
	if done != plan.Plain || total != plan.Plain || result.Bytes != plan.Plain {
		t.Errorf("progress %d of %d, result %d; want %d", done, total, result.Bytes, plan.Plain)
	}
	if err := restorer.CheckDB(t.Context(), filepath.Join(dir, "etcd", "member", "snap", "db")); err != nil {
		t.Error(err)
	}
	h, err := restorer.Hash(t.Context(), filepath.Join(dir, "etcd"), 0, 0)
	if err != nil || h.Revision != 30 {
		t.Errorf("hash: %+v, %v", h, err)
	}
}

// TestCompactedEnd restores a full whose last revisions only deleted keys, of
// which an older etcd that compacts leaves nothing but the number.
func TestCompactedEnd(t *testing.T) {
	t.Parallel()
	for _, name := range [][]byte{schema.FinishedCompactKeyName, schema.ScheduledCompactKeyName} {
		f := forge()
		content := database(t, 10, func(tx *bbolt.Tx) { put(t, tx, schema.Meta.Name(), name, revisionKey(12, 0)) })
		f.saveFull(t, 12, append(content, digest(content)...))
		f.delta(t, 9, 15)
		result, err := restorer.New(f.Archive).Do(t.Context(), planOf(t, f.Archive, restorer.Options{}), filepath.Join(t.TempDir(), "etcd"))
		if err != nil || result.Revision != 15 || result.Events != 3 {
			t.Errorf("%s: restored %+v, %v; want 3 events up to revision 15", name, result, err)
		}
	}
}

// TestLeases writes those that are known best, and none that is only mentioned
// after the target.
func TestLeases(t *testing.T) {
	t.Parallel()
	f := forge()
	f.full(t, 10, func(tx *bbolt.Tx) {
		putLease(t, tx, &leasepb.Lease{ID: 1, TTL: 100, RemainingTTL: 70})
		putLease(t, tx, &leasepb.Lease{ID: 2, TTL: 200})
	})
	mention := map[int64][]delta.Lease{
		12: {{ID: 1, TTL: 100}, {ID: 2}, {ID: 3}},
		14: {{ID: 4, TTL: 400}},
		15: {{ID: 5, TTL: 500}},
	}
	f.deltaWith(t, 8, 20, func(e *delta.Encoder, event *mvccpb.Event) {
		for _, l := range mention[event.Kv.ModRevision] {
			if err := e.Lease(l); err != nil {
				t.Fatal(err)
			}
			event.Kv.Lease = l.ID
		}
	})
	plan := planOf(t, f.Archive, restorer.Options{Target: snapshot.Target{Revision: 14}})
	dir := filepath.Join(t.TempDir(), "etcd")
	result, err := restorer.New(f.Archive).Do(t.Context(), plan, dir)
	if err != nil || result.Leases != 2 {
		t.Fatalf("restored %+v, %v; want 2 leases", result, err)
	}
	want := []*leasepb.Lease{{ID: 1, TTL: 100, RemainingTTL: 70}, {ID: 2, TTL: 200}, {ID: 3, TTL: 1}, {ID: 4, TTL: 400}}
	var got []*leasepb.Lease
	inspect(t, dir, func(tx *bbolt.Tx) {
		err = tx.Bucket(schema.Lease.Name()).ForEach(func(_, v []byte) error {
			l := &leasepb.Lease{}
			got = append(got, l)
			return proto.Unmarshal(v, l)
		})
	})
	same := func(a, b *leasepb.Lease) bool { return proto.Equal(a, b) }
	if err != nil || !slices.EqualFunc(got, want, same) {
		t.Errorf("leases %v, %v; want %v", got, err, want)
	}
}

func putLease(t *testing.T, tx *bbolt.Tx, l *leasepb.Lease) {
	t.Helper()
	value, err := proto.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	put(t, tx, schema.Lease.Name(), binary.BigEndian.AppendUint64(nil, uint64(l.ID)), value)
}

// TestReservedAlarms are removed, and no others.
func TestReservedAlarms(t *testing.T) {
	t.Parallel()
	alarm := func(member uint64, kind etcdserverpb.AlarmType) []byte {
		key, err := proto.Marshal(&etcdserverpb.AlarmMember{MemberID: member, Alarm: kind})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	space := alarm(0xFD00_0000_0000_0007, etcdserverpb.AlarmType_NOSPACE)
	corrupt := alarm(0x00FE_0000_0000_0001, etcdserverpb.AlarmType_CORRUPT)
	f := forge()
	f.full(t, 10, func(tx *bbolt.Tx) {
		for _, key := range [][]byte{
			space, corrupt,
			alarm(0xFE00_0000_0000_0003, etcdserverpb.AlarmType_CORRUPT),
			alarm(0xFEFF_FFFF_FFFF_FFFF, etcdserverpb.AlarmType_CORRUPT),
		} {
			put(t, tx, schema.Alarm.Name(), key, nil)
		}
	})
	dir := filepath.Join(t.TempDir(), "etcd")
	if _, err := restorer.New(f.Archive).Do(t.Context(), planOf(t, f.Archive, restorer.Options{}), dir); err != nil {
		t.Fatal(err)
	}
	inspect(t, dir, func(tx *bbolt.Tx) {
		alarms := tx.Bucket(schema.Alarm.Name())
		if n := alarms.Stats().KeyN; n != 2 || alarms.Get(space) == nil || alarms.Get(corrupt) == nil {
			t.Errorf("%d alarms are left, want the 2 of members", n)
		}
	})
}
