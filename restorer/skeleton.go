package restorer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// skeleton has etcdutl restore an empty database into the staged data dir. That
// makes everything but the data: the WAL, the snap file, and a small database
// with the members, which is put aside for graft.
func (j *job) skeleton(context.Context) error {
	o := j.plan.Options
	if o.InitialClusterToken == "" {
		o.InitialClusterToken = newToken()
	}
	empty := j.staging.path("empty.db")
	if err := makeEmpty(empty); err != nil {
		return fmt.Errorf("make an empty database: %w", err)
	}
	err := etcdutl.NewV3(quiet()).Restore(etcdutl.RestoreConfig{
		SnapshotPath:        empty,
		SkipHashCheck:       true, // it has none
		OutputDataDir:       j.staging.data(),
		Name:                o.Name,
		PeerURLs:            o.PeerURLs,
		InitialCluster:      o.InitialCluster,
		InitialClusterToken: o.InitialClusterToken,
	})
	if err != nil {
		return fmt.Errorf("make member %q of %s: %w", o.Name, o.InitialCluster, err)
	}
	if err := j.identify(o); err != nil {
		return err
	}
	return os.Rename(j.staging.db(), j.staging.path(skeletonDB))
}

const skeletonDB = "skeleton.db"

// makeEmpty makes a database with all buckets of etcd and nothing in them.
func makeEmpty(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, NoSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range schema.AllBuckets {
			if _, err := tx.CreateBucketIfNotExists(bucket.Name()); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// identify computes the ids that the skeleton has.
func (j *job) identify(o Options) error {
	members, err := types.NewURLsMap(o.InitialCluster)
	if err != nil {
		return err
	}
	cluster, err := membership.NewClusterFromURLsMap(quiet(), o.InitialClusterToken, members)
	if err != nil {
		return err
	}
	j.result.ClusterID = cluster.ID().String()
	j.result.MemberID = cluster.MemberByName(o.Name).ID.String()
	return nil
}

// graft replaces the members and the position in the WAL by the skeleton's.
func (s *staging) graft(to *bbolt.Tx) (err error) {
	db, err := bbolt.Open(s.path(skeletonDB), 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("open the skeleton: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(from *bbolt.Tx) error {
		for _, bucket := range [][]byte{schema.Members.Name(), schema.MembersRemoved.Name()} {
			if err := replaceBucket(to, from, bucket); err != nil {
				return fmt.Errorf("bucket %s: %w", bucket, err)
			}
		}
		meta, err := to.CreateBucketIfNotExists(schema.Meta.Name())
		if err != nil {
			return err
		}
		for _, key := range [][]byte{schema.MetaConsistentIndexKeyName, schema.MetaTermKeyName} {
			if err := meta.Put(key, bytes.Clone(get(from, schema.Meta.Name(), key))); err != nil {
				return err
			}
		}
		return nil
	})
}

func replaceBucket(to, from *bbolt.Tx, name []byte) error {
	if to.Bucket(name) != nil {
		if err := to.DeleteBucket(name); err != nil {
			return err
		}
	}
	fresh, err := to.CreateBucket(name)
	if err != nil {
		return err
	}
	return from.Bucket(name).ForEach(func(k, v []byte) error {
		return fresh.Put(bytes.Clone(k), bytes.Clone(v))
	})
}
