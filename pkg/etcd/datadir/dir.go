package datadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

var (
	// ErrMembers is wrapped if the member is not the only one of its cluster, see
	// MembersError: what it has committed cannot be told from one data dir.
	ErrMembers = errors.New("a cluster of several members cannot be read from the data dir of one")
	// ErrIncomplete is wrapped if the WAL does not lead on from the database.
	ErrIncomplete = errors.New("the WAL does not continue the database")
	// ErrBroken is wrapped if etcd's own code cannot read the database.
	ErrBroken = errors.New("the database is broken")
	// ErrNoHash says that etcd was interrupted in a compaction: until it has
	// finished it, the database as it is has no comparable hash.
	ErrNoHash = errors.New("a compaction is unfinished, so the database has no hash that can be compared")
)

// MembersError tells how many members a cluster has that has several.
type MembersError struct{ Members int } // learners included

func (e *MembersError) Error() string { return fmt.Sprintf("%v: there are %d", ErrMembers, e.Members) }

// Unwrap returns ErrMembers.
func (e *MembersError) Unwrap() error { return ErrMembers }

// smallest is less than any database has: bbolt begins one with four pages.
const smallest = 4096 // bytes

// Dir names the folders of a member.
type Dir struct {
	Data string // --data-dir
	WAL  string // --wal-dir; empty: member/wal in Data
}

func (d Dir) db() string  { return filepath.Join(d.Data, "member", "snap", "db") }
func (d Dir) wal() string { return cmp.Or(d.WAL, filepath.Join(d.Data, "member", "wal")) }

// Empty reports whether there is nothing in d for an etcd to start with: no WAL,
// and no database or only the empty file of a fence.Lock.
func (d Dir) Empty() (bool, error) {
	if wal.Exist(d.wal()) {
		return false, nil
	}
	db, err := os.Stat(d.db())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return db.Size() < smallest, nil
}

// Final returns the final snapshot of an etcd that has ended, with every write
// it has acknowledged. Its lock (fence.Lock) must be held until the snapshot is
// closed. If the database has to be copied, then to a new folder in workDir,
// which is made if it is missing; the folder goes with Close, and must have room
// for the database. ErrMembers, ErrIncomplete and ErrBroken are wrapped; so is
// fs.ErrNotExist if there is no database or no WAL.
func (d Dir) Final(ctx context.Context, workDir string) (*Snapshot, error) {
	s, err := d.final(ctx, workDir)
	if err != nil {
		return nil, fmt.Errorf("final snapshot of %s: %w", d.Data, err)
	}
	return s, nil
}

func (d Dir) final(ctx context.Context, workDir string) (*Snapshot, error) {
	db, err := openDatabase(d.db())
	if err != nil {
		return nil, err
	}
	log, err := d.log(db)
	if err == nil {
		err = log.alone()
	}
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	if len(log.missing) == 0 {
		return newSnapshot(ctx, db, log), nil
	}
	if err := db.close(); err != nil {
		return nil, err
	}
	if db, err = replay(ctx, d.db(), log, workDir); err != nil {
		return nil, fmt.Errorf("replay %d entries of the WAL: %w", len(log.missing), err)
	}
	return newSnapshot(ctx, db, log), nil
}
