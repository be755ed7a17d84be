package restorer

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

const (
	lockTimeout = 5 * time.Second // nobody else has a staged database open
	// mapRoom is mapped besides what the database will hold at least, so that
	// the file need not be mapped again as it grows. It costs addresses only.
	mapRoom = 1 << 30
	// reservedAlarm in its top byte marks a member id that no member has: an
	// alarm of such a member fenced the cluster for a hand-over, and must not
	// fence the restored one.
	reservedAlarm = 0xFE
)

// openDatabase opens etcd's database for many appends and one sync at the end.
func openDatabase(path string, size int64) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockTimeout,
		NoSync:          true,
		NoGrowSync:      true,
		NoFreelistSync:  true, // as etcd opens it
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: int(2*size + mapRoom),
		NoStatistics:    true,
	})
	if err != nil {
		return nil, opened(err)
	}
	return db, nil
}

// openFull opens the full's database and returns the revision of its content,
// which may be broken in any way: only its bytes are known to be those that etcd
// has sent.
func (j *job) openFull() (db *bbolt.DB, at int64, err error) {
	err = guarded(func() (err error) {
		if err := checkPages(j.staging.db()); err != nil {
			return err
		}
		if db, err = openDatabase(j.staging.db(), j.plan.Plain); err != nil {
			return err
		}
		if at, err = j.baseOf(db); err != nil {
			return errors.Join(err, db.Close())
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", j.plan.Chain.Full.Name, err)
	}
	return db, at, nil
}

// baseOf returns the revision of the full's content, and checks what else was
// said of it.
func (j *job) baseOf(db *bbolt.DB) (at int64, err error) {
	full, target := j.plan.Chain.Full, j.plan.Options.Target.Revision
	err = db.View(func(tx *bbolt.Tx) (err error) {
		at, err = currentRevision(tx)
		full.StorageVersion = cmp.Or(string(get(tx, schema.Meta.Name(), schema.MetaStorageVersionName)), full.StorageVersion)
		return err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
	case at < full.First || at > full.Last:
		return 0, fmt.Errorf("%w: it is at revision %d, its manifest says %d to %d", archive.ErrCorrupt, at, full.First, full.Last)
	case target > 0 && at > target:
		return 0, fmt.Errorf("it is at revision %d already, after %d: choose an older full with --base", at, target)
	}
	return at, checkVersion(full, j.plan.Options.EtcdVersion)
}

// currentRevision returns the revision that etcd would start with (mvcc,
// store.restore).
func currentRevision(tx *bbolt.Tx) (int64, error) {
	current := int64(1)
	keys := tx.Bucket(schema.Key.Name())
	if keys == nil {
		return 0, errors.New("there is no bucket of keys")
	}
	// A revision whose only keys were deleted may have been compacted away.
	last, _ := keys.Cursor().Last()
	finished := get(tx, schema.Meta.Name(), schema.FinishedCompactKeyName)
	scheduled := get(tx, schema.Meta.Name(), schema.ScheduledCompactKeyName)
	for _, key := range [][]byte{last, finished, scheduled} {
		if key == nil {
			continue
		}
		r, _, err := parseRevision(key)
		if err != nil {
			return 0, err
		}
		current = max(current, r.main)
	}
	return current, nil
}

// get returns nil if there is no such bucket or key.
func get(tx *bbolt.Tx, bucket, key []byte) []byte {
	b := tx.Bucket(bucket)
	if b == nil {
		return nil
	}
	return b.Get(key)
}

// ended checks that the history ends where it should.
func (j *job) ended(a *applier) error {
	if want := j.plan.Revision; a.at.main < want || j.plan.Exact && a.at.main > want {
		return fmt.Errorf("%w: the history ends with revision %d of %s, the plan was %d", archive.ErrCorrupt, a.at.main, a.after, want)
	}
	r := &j.result
	r.Revision, r.Current = a.at.main, a.at.main+j.plan.Options.BumpRevision
	r.Events, r.Leases = a.events, a.leases
	return nil
}

// finish makes the database one of the new cluster.
func (j *job) finish(db *bbolt.DB) error {
	r := &j.result
	return db.Update(func(tx *bbolt.Tx) error {
		if err := stripAlarms(tx); err != nil {
			return err
		}
		if r.Current > r.Revision {
			if err := bump(tx, r.Current); err != nil {
				return err
			}
		}
		return j.staging.graft(tx)
	})
}

// stripAlarms removes the alarms with a reserved member id, and only those.
func stripAlarms(tx *bbolt.Tx) error {
	alarms := tx.Bucket(schema.Alarm.Name())
	if alarms == nil {
		return nil
	}
	var reserved [][]byte
	err := alarms.ForEach(func(key, _ []byte) error {
		var alarm etcdserverpb.AlarmMember
		if err := proto.Unmarshal(key, &alarm); err != nil {
			return fmt.Errorf("alarm %x: %w", key, err)
		}
		if alarm.MemberID>>56 == reservedAlarm {
			reserved = append(reserved, key)
		}
		return nil
	})
	for _, key := range reserved {
		err = errors.Join(err, alarms.Delete(key))
	}
	return err
}

// bump makes current the revision, with nothing in it, and has etcd compact all
// that is before when it starts (etcdutl, modifyLatestRevision).
func bump(tx *bbolt.Tx, current int64) error {
	at := revision{main: current}
	if err := tx.Bucket(schema.Key.Name()).Put(at.appendKey(nil, false), []byte{}); err != nil {
		return err
	}
	return tx.Bucket(schema.Meta.Name()).Put(schema.ScheduledCompactKeyName, at.appendKey(nil, false))
}
