package restorer_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// patch writes over content what edits say: two bytes where, in units of 4 bytes, and
// four bytes what. So that what the fuzzer finds is small, though a database is not.
func patch(content, edits []byte) []byte {
	content = append([]byte{}, content...)
	for ; len(edits) >= 6; edits = edits[6:] {
		at := 4 * int(binary.BigEndian.Uint16(edits))
		copy(content[at%len(content):], edits[2:6])
	}
	return content
}

// FuzzCheckDB: a database that is broken in any way neither ends the process nor goes
// on for ever, and what is said of it is that it is corrupt.
func FuzzCheckDB(f *testing.F) {
	content := database(f, 60, nil)
	const page = 4096 / 4
	f.Add([]byte{})
	f.Add([]byte{0, 0, 9, 9, 9, 9})
	for at := range uint16(8) { // flags, counts and first elements of pages
		f.Add(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, at*page+2), 0xffffffff))
		f.Add(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, at*page+5), 0x01000000))
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, patch(content, edits), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := restorer.CheckDB(t.Context(), path); err != nil && !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("not classified: %v", err)
		}
	})
}

// FuzzReadOrigin: what a data dir says of where it comes from is read, or complained
// about by its name.
func FuzzReadOrigin(f *testing.F) {
	f.Add([]byte(`{"clusterID":"c","lineage":"l","epoch":1,"snapshot":"s","revision":7,"time":"2026-11-20T12:00:00Z"}`))
	f.Add([]byte("{}"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "member", "etcd-ferry.json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := restorer.ReadOrigin(dir); err != nil && o.OperationID != "" && errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v, %v", o, err)
		}
	})
}
