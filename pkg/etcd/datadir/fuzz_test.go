package datadir_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
)

// young makes the data dir of an etcd that has not started yet, with a small WAL.
func young(f *testing.F) string {
	f.Helper()
	dir := f.TempDir()
	empty, data := filepath.Join(dir, "empty.db"), filepath.Join(dir, "data")
	db, err := bbolt.Open(empty, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			for _, bucket := range schema.AllBuckets {
				if _, err := tx.CreateBucketIfNotExists(bucket.Name()); err != nil {
					return err
				}
			}
			return nil
		})
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	defer func(size int64) { wal.SegmentSizeBytes = size }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 16 << 10
	err = etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{
		SnapshotPath: empty, SkipHashCheck: true, OutputDataDir: data, Name: "m",
		PeerURLs: []string{"http://127.0.0.1:1"}, InitialCluster: "m=http://127.0.0.1:1", InitialClusterToken: "t",
	})
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzLook looks at a data dir whose WAL and database are broken anywhere: two bytes of
// the input say where, in units of 4 bytes, and four what. It ends with an answer or an
// error, and neither with the process nor never.
func FuzzLook(f *testing.F) {
	data := young(f)
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0, 255, 255, 255, 127}, []byte{})
	f.Add([]byte{0, 2, 1, 2, 3, 4, 0, 9, 0, 0, 0, 0}, []byte{4, 4, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, log, database []byte) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*-*.wal"))
		if err != nil || len(logs) != 1 {
			t.Fatal(logs, err)
		}
		patch(t, logs[0], log)
		patch(t, filepath.Join(dir, "member", "snap", "db"), database)
		s, err := datadir.Dir{Data: dir}.Look()
		switch {
		case err == nil && len(log)+len(database) == 0 && s.Members != 1:
			t.Errorf("what is sound is %+v", s)
		case errors.Is(err, fs.ErrNotExist):
			t.Errorf("it is there: %v", err)
		}
	})
}

// patch writes over a file what edits say.
func patch(t *testing.T, path string, edits []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(edits) >= 6; edits = edits[6:] {
		at := 4 * int(binary.BigEndian.Uint16(edits)) % len(content)
		copy(content[at:], edits[2:6])
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
