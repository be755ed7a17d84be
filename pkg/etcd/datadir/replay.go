package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/raft/v3/raftpb"
)

const scratchPrefix = "etcd-ferry-replay-"

// Sweep removes from workDir the copies of a process that was killed before it
// could. Nobody else may work there.
func Sweep(workDir string) error {
	left, err := filepath.Glob(filepath.Join(workDir, scratchPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// replay opens a copy of the database at path, in a new folder in workDir, to
// which the missing entries of the WAL have been applied.
func replay(ctx context.Context, path string, l *log, workDir string) (db *database, err error) {
	if err := os.MkdirAll(workDir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(workDir, scratchPrefix)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	copied := filepath.Join(dir, "db")
	if err := copyFile(ctx, copied, path); err != nil {
		return nil, fmt.Errorf("copy the database: %w", err)
	}
	if err := guarded(func() error { return applyAll(ctx, copied, l.missing) }); err != nil {
		return nil, err
	}
	if db, err = openDatabase(copied); err != nil {
		return nil, err
	}
	db.scratch = dir
	if last := l.missing[len(l.missing)-1]; db.RaftIndex != last.GetIndex() {
		return nil, errors.Join(fmt.Errorf("%w: entry %d was applied last, not %d", ErrIncomplete, db.RaftIndex, last.GetIndex()), db.close())
	}
	return db, nil
}

// copyFile has the kernel copy from's content, which on some filesystems only
// shares the blocks.
func copyFile(ctx context.Context, to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	const piece = 1 << 30 // bytes: ctx is looked at in between
	for err == nil && ctx.Err() == nil {
		_, err = io.CopyN(out, in, piece)
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, context.Cause(ctx), out.Close())
}

func applyAll(ctx context.Context, path string, entries []*raftpb.Entry) (err error) {
	m, err := newMachine(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for _, e := range entries {
		if err := m.apply(ctx, e); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	return nil
}
