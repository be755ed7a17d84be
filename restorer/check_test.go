package restorer_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

func saveDB(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckDB(t *testing.T) {
	keys := schema.Key.Name()
	for _, test := range []struct {
		name string
		edit func(*bbolt.Tx)
		says string // empty: it is sound
	}{
		{"sound", nil, ""},
		{"the placeholder of a bump", func(tx *bbolt.Tx) { put(t, tx, keys, revisionKey(1000, 0), []byte{}) }, ""},
		{"a tombstone", func(tx *bbolt.Tx) { put(t, tx, keys, append(revisionKey(101, 0), 't'), []byte("\x0a\x01k")) }, ""},
		{"a foreign key", func(tx *bbolt.Tx) { put(t, tx, keys, []byte("key"), nil) }, "no key of a revision"},
		{"a foreign mark", func(tx *bbolt.Tx) { put(t, tx, keys, append(revisionKey(101, 0), 'x'), nil) }, "no key of a revision"},
		{"a negative revision", func(tx *bbolt.Tx) { put(t, tx, keys, revisionKey(-1, 0), nil) }, "negative"},
		{"a change twice", func(tx *bbolt.Tx) { put(t, tx, keys, append(revisionKey(100, 0), 't'), nil) }, "revision 100.0 comes after 100.0"},
		{"a value that is none", func(tx *bbolt.Tx) { put(t, tx, keys, revisionKey(101, 0), []byte("value")) }, "revision 101.0"},
		{"a change of another revision", func(tx *bbolt.Tx) {
			put(t, tx, keys, revisionKey(101, 0), tx.Bucket(keys).Get(revisionKey(7, 0)))
		}, "revision 101.0 holds a change of revision 7"},
	} {
		err := restorer.CheckDB(t.Context(), saveDB(t, database(t, 100, test.edit)))
		if test.says == "" && err == nil {
			continue
		}
		if test.says == "" || !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.says)
		}
	}
	if err := restorer.CheckDB(t.Context(), filepath.Join(t.TempDir(), "db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database: %v", err)
	}
}

// TestCheckDBSurvives gives it files that are broken anywhere. Not every flipped
// byte can be seen, the sha256 of the snapshot is for that; but none may end the
// process, and most are.
func TestCheckDBSurvives(t *testing.T) {
	sound := database(t, 2000, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	found := 0
	const tries = 150
	for i := range tries {
		broken := slices.Clone(sound)
		switch i % 3 {
		case 0: // the head of a page
			at := rng.IntN(len(broken)/4096)*4096 + rng.IntN(64)
			broken[at] ^= byte(1 + rng.IntN(255))
		case 1: // anywhere
			for range 20 {
				broken[rng.IntN(len(broken))] = byte(rng.Uint32())
			}
		case 2:
			broken = broken[:rng.IntN(len(broken))]
		}
		if err := restorer.CheckDB(t.Context(), saveDB(t, broken)); err != nil {
			found++
		}
	}
	if found < tries/2 {
		t.Errorf("%d of %d broken databases were found", found, tries)
	}
}
