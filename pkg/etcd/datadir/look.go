package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// ErrLog is wrapped if the database can be read and the WAL cannot, or does not
// continue it. etcd does not start from that.
var ErrLog = errors.New("the WAL cannot be used")

// State is what a data dir says of itself when it is looked at, not read.
type State struct {
	Info
	Members int // of the cluster, this one and learners included
	// LastIndex is the last entry of the WAL. Once etcd has applied it, its
	// revision is AtMost; Info.Revision is what the database has already.
	LastIndex uint64
	AtMost    int64
}

// Look opens the data dir of an etcd that has ended, whose lock (fence.Lock) is
// held, and reads what etcd itself begins with: a few pages of the database, and
// of the WAL what follows the last snapshot. It proves no more than that.
//
// ErrBroken is wrapped if the database cannot be used, ErrLog if the WAL cannot;
// then State has what the database says. Any other error leaves it open how the
// data dir is. Whether there is anything is for Empty to say.
func (d Dir) Look() (s State, err error) {
	db, err := openSound(d.db())
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	s = State{Info: db.Info, Members: len(db.members), LastIndex: db.RaftIndex, AtMost: db.Revision}
	l, err := d.log(db)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrPermission), isIO(err):
		return s, err
	default:
		return s, fmt.Errorf("%w: %w", ErrLog, err)
	}
	s.ClusterID, s.MemberID, s.Members = l.clusterID, l.memberID, len(l.members)
	s.LastIndex += uint64(len(l.missing))
	s.AtMost += int64(len(l.missing)) // an entry makes one revision at most
	return s, nil
}

// isIO reports whether a disk or the system has failed, which says nothing about
// what is stored.
func isIO(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// openSound is openDatabase with every way in which a database can be unusable
// told apart from those in which it just cannot be read now.
func openSound(path string) (d *database, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: it is missing, though there is a WAL", ErrBroken)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() < smallest {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrBroken, info.Size())
	}
	err = guarded(func() (err error) {
		d, err = openDatabase(path)
		return err
	})
	for _, broken := range []error{bbolterrors.ErrInvalid, bbolterrors.ErrChecksum, bbolterrors.ErrVersionMismatch} {
		if errors.Is(err, broken) {
			err = fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := d.view(func(tx *bbolt.Tx) error { return atLeast(info.Size(), tx.Size()) }); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func atLeast(size, want int64) error {
	if size < want {
		return fmt.Errorf("%w: it has %d of its %d bytes", ErrBroken, size, want)
	}
	return nil
}
