package server

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzState: whatever is in the state file, it is understood, or refused with its name;
// what is understood is kept as it was.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"bootID":"b","generation":3,"lineage":"l","epoch":2,"members":3,"fenced":true}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"lease":`))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "election.json")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		m := memory{kept: stateFile(path)}
		if m.load() != nil {
			return
		}
		before := m.get()
		if err := m.update(func(p *persisted) { p.Settled += "x" }); err != nil {
			t.Fatal(err)
		}
		again := memory{kept: stateFile(path)}
		if err := again.load(); err != nil {
			t.Fatalf("%s is written, and not read: %v", content, err)
		}
		if got := again.get(); got.Settled != before.Settled+"x" || got.Generation != before.Generation || got.Lease != before.Lease || got.Fenced != before.Fenced {
			t.Fatalf("%+v became %+v", before, got)
		}
	})
}
