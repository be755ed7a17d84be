package restorer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// forged is an archive of a history that no etcd has lived through. Revision n
// puts the key of n.
type forged struct {
	*archive.Archive
	objects *mem.Store
	saved   int
}

func forge() *forged {
	objects := mem.New()
	return &forged{Archive: archive.New(objects), objects: objects}
}

func (f *forged) describe(kind snapshot.Kind, first, last int64) snapshot.Manifest {
	f.saved++
	return snapshot.Manifest{
		Kind: kind, First: first, Last: last, Time: noon.Add(time.Duration(f.saved) * time.Minute),
		EtcdVersion: "3.7.3", Lineage: "one", ClusterID: "c1",
	}
}

// full saves a full of revisions 2 to last, after what edit does to it.
func (f *forged) full(t testing.TB, last int64, edit func(*bbolt.Tx)) snapshot.Manifest {
	t.Helper()
	content := database(t, last, edit)
	return f.saveFull(t, last, append(content, digest(content)...))
}

func (f *forged) saveFull(t testing.TB, at int64, content []byte) snapshot.Manifest {
	t.Helper()
	m, err := f.Save(t.Context(), f.describe(snapshot.Full, at, at), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func digest(content []byte) []byte {
	sum := sha256.Sum256(content)
	return sum[:]
}

// database returns an etcd database of revisions 2 to last.
func database(t testing.TB, last int64, edit func(*bbolt.Tx)) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range schema.AllBuckets {
			put(t, tx, bucket.Name(), nil, nil)
		}
		for revision := int64(2); revision <= last; revision++ {
			value, err := proto.Marshal(change(revision).Kv)
			if err != nil {
				return err
			}
			put(t, tx, schema.Key.Name(), revisionKey(revision, 0), value)
		}
		if edit != nil {
			edit(tx)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// put makes the bucket if there is none, and no entry if key is nil.
func put(t testing.TB, tx *bbolt.Tx, bucket, key, value []byte) {
	t.Helper()
	b, err := tx.CreateBucketIfNotExists(bucket)
	if err == nil && key != nil {
		err = b.Put(key, value)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func revisionKey(main, sub int64) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(main))
	return binary.BigEndian.AppendUint64(append(key, '_'), uint64(sub))
}

// change is what revision did.
func change(revision int64) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{
		Key: fmt.Appendf(nil, "key of %d", revision), Value: []byte("value"),
		CreateRevision: revision, ModRevision: revision, Version: 1,
	}}
}

// delta saves a delta of the changes of revisions first to last.
func (f *forged) delta(t testing.TB, first, last int64) snapshot.Manifest {
	t.Helper()
	return f.deltaWith(t, first, last, nil)
}

// deltaWith lets before write leases before a revision's change, and edit the
// change.
func (f *forged) deltaWith(t testing.TB, first, last int64, before func(*delta.Encoder, *mvccpb.Event)) snapshot.Manifest {
	t.Helper()
	var content bytes.Buffer
	encoder := delta.NewEncoder(&content, first)
	for revision := first; revision <= last; revision++ {
		event := change(revision)
		if before != nil {
			before(encoder, event)
		}
		if err := encoder.Event(event); err != nil {
			t.Fatal(err)
		}
	}
	summary, err := encoder.Close()
	if err != nil {
		t.Fatal(err)
	}
	m := f.describe(snapshot.Delta, first, last)
	m.Events = summary.Events
	if m, err = f.Save(t.Context(), m, &content); err != nil {
		t.Fatal(err)
	}
	return m
}

// object returns the stored bytes of a snapshot.
func (f *forged) object(t testing.TB, m snapshot.Manifest) []byte {
	t.Helper()
	r, _, err := f.objects.Open(t.Context(), "snapshots/"+m.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(content)
}

// replace puts other bytes in the place of a snapshot's, or none if they are nil.
func (f *forged) replace(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := f.objects.Remove(t.Context(), "snapshots/"+name); err != nil {
		t.Fatal(err)
	}
	if content == nil {
		return
	}
	if _, err := f.objects.Create(t.Context(), "snapshots/"+name, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

// inspect calls look with the restored database.
func inspect(t testing.TB, dataDir string, look func(*bbolt.Tx)) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dataDir, "member", "snap", "db"), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error { look(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}
