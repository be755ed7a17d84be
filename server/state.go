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
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// persisted is what a restart of this process must not forget (HANDOVER §4).
type persisted struct {
	// BootID names the run of the kernel that Lease.Boot belongs to. Of another
	// run the lease is void.
	BootID string  `json:"bootID"`
	Lease  instant `json:"lease"` // the start of the last good read; zero: none
	// Promise is what owner.json says of when this deployment stops by itself.
	Promise promise `json:"promise"`
	// Proven is the store that has passed the probe, in words; empty: none yet.
	Proven string `json:"proven"`
	// Generation is the newest of the sync object that was seen.
	Generation int64 `json:"generation"`
	// Lineage is that of the data dir; empty: not known. Epoch is the one in which
	// it was found to be that.
	Lineage string `json:"lineage"`
	Epoch   int64  `json:"epoch"`
	// Fenced says that etcd must not serve until this deployment is found to be
	// the owner again.
	Fenced bool `json:"fenced"`
	// Gates are those that were let pass and may have an etcd below them.
	Gates   []fence.Process `json:"gates"`
	Members int             `json:"members"` // of the etcd cluster, 0: not known
	Member  string          `json:"member"`  // the id of this one, hexadecimal; empty: not known
	// Settled is the operation that was decided without this source and that has
	// got what was missing in it, see late.
	Settled string `json:"settled"`
}

// stale reports whether the data dir is of a history from before the one that
// holder has the right to serve. Within an epoch nothing is handed over: another
// lineage is then another name of the same.
func (p persisted) stale(holder syncobject.Holder) bool {
	return p.Lineage != "" && p.Lineage != holder.Lineage && p.Epoch < holder.Epoch
}

// Memory keeps what an Election must not forget, as one piece of bytes. It may be
// called while the Election answers nobody: it must not wait for others.
type Memory interface {
	// Load returns what was kept last; fs.ErrNotExist: nothing yet.
	Load() ([]byte, error)
	// Replace keeps data, whole or not at all, and has it outlive the machine's
	// next crash. After an error the one or the other is kept.
	Replace(data []byte) error
	String() string // for people: where it is
}

// stateFile is a Memory.
type stateFile string

func (f stateFile) String() string            { return string(f) }
func (f stateFile) Load() ([]byte, error)     { return os.ReadFile(string(f)) }
func (f stateFile) Replace(data []byte) error { return replaceFile(string(f), data) }

// memory is persisted.
type memory struct {
	kept Memory

	mu    sync.Mutex // guards what follows, and what is kept
	state persisted
	torn  bool // the last write failed: the disk may have what it said
}

// load reads what is kept. If there is nothing, nothing is remembered.
func (m *memory) load() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, err := m.kept.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m.state)
	}
	if err != nil {
		return fmt.Errorf("state of the election: %w: it cannot be told whether etcd may serve; "+
			"if this deployment is the owner for certain, remove %s and start again", err, m.kept)
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
// disk may have the one or the other, until an update succeeds: the next one writes
// whatever it changes.
func (m *memory) update(change func(*persisted)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, _ := json.Marshal(m.state) // a struct of plain values
	change(&m.state)
	data, _ := json.Marshal(m.state)
	if bytes.Equal(before, data) && !m.torn {
		return nil
	}
	m.torn = true
	if err := m.kept.Replace(data); err != nil {
		return fmt.Errorf("remember the state of the election: %w", err)
	}
	m.torn = false
	return nil
}

// dirLock is held by the one process that uses a state dir: two that write there
// would each forget what the other has remembered. The end of the process releases it.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another etcd-ferry server is at work with the state dir %s: "+
			"end it first, or give this one a --data-dir and a --state-dir of its own", dir)
	case err != nil:
		err = fmt.Errorf("lock the state dir %s: %w", dir, err)
	default:
		return &dirLock{f}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// release does nothing to a nil lock.
func (l *dirLock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// removeTemps removes what a process has left in a state dir that was killed while
// it wrote.
func removeTemps(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "election.json.") && strings.HasSuffix(e.Name(), tempSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

const tempSuffix = ".tmp" // as of earlier versions, which had no random part

// replaceFile makes data the content of a file that appears whole or not at all.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+tempSuffix) // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the next start does it otherwise
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
