package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
)

// persisted is what a restart of this process must not forget (HANDOVER §4).
type persisted struct {
	// BootID names the run of the kernel that Lease.Boot belongs to. Of another
	// run the lease is void.
	BootID string  `json:"bootID"`
	Lease  instant `json:"lease"` // the start of the last good read; zero: none
	// Generation is the newest of the sync object that was seen.
	Generation int64 `json:"generation"`
	// Lineage is that of the data dir; empty: not known.
	Lineage string `json:"lineage"`
	// Fenced says that etcd must not serve until this deployment is found to be
	// the owner again.
	Fenced bool `json:"fenced"`
	// Gates are those that were let pass and may have an etcd below them.
	Gates   []fence.Process `json:"gates"`
	Members int             `json:"members"` // of the etcd cluster, 0: not known
	// Settled is the operation that was decided without this source and that has
	// got what was missing in it, see late.
	Settled string `json:"settled"`
}

// memory is persisted in a file.
type memory struct {
	path string

	mu    sync.Mutex // guards state and the file
	state persisted
}

// load reads the file. If there is none, nothing is remembered.
func (m *memory) load() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m.state)
	}
	if err != nil {
		return fmt.Errorf("state of the election: %w: it cannot be told whether etcd may serve; "+
			"if this deployment is the owner for certain, remove %s and start again", err, m.path)
	}
	return nil
}

func (m *memory) get() persisted {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.state
	p.Gates = slices.Clone(p.Gates)
	return p
}

// update changes what is remembered, at once and on disk. After an error the
// disk may have the one or the other.
func (m *memory) update(change func(*persisted)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, _ := json.Marshal(m.state) // a struct of plain values
	change(&m.state)
	data, _ := json.Marshal(m.state)
	if bytes.Equal(before, data) {
		return nil
	}
	if err := replaceFile(m.path, data); err != nil {
		return fmt.Errorf("remember the state of the election: %w", err)
	}
	return nil
}

// replaceFile makes data the content of a file that appears whole or not at all.
func replaceFile(path string, data []byte) error {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
