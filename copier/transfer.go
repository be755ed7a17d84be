package copier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// transfer brings the object of a snapshot to the destination and makes its
// manifest ready. What is wrong with the source is a *damaged.
func (j *job) transfer(ctx context.Context, it Item) error {
	m := it.Manifest
	if _, ready := j.isReady(m.Name); ready { // in an earlier pass
		return nil
	}
	manifest, err := j.manifest(ctx, m)
	if err != nil {
		return err
	}
	var sent bool
	if j.Reencrypt {
		manifest, sent, err = j.repack(ctx, it)
	} else {
		sent, err = j.copy(ctx, it)
	}
	if errors.Is(err, archive.ErrCorrupt) {
		if _, again := j.manifest(ctx, m); errors.Is(again, ErrGone) { // pruned: the manifest went first
			return again
		}
	}
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.CopyUploaded)
	j.transferred(m, manifest, sent)
	return nil
}

func (j *job) transferred(m snapshot.Manifest, manifest []byte, sent bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ready[m.Name] = manifest
	if sent {
		j.result.Copied++
		j.result.CopiedBytes += m.StoredSize
	} else {
		j.result.Adopted++
		j.result.AdoptedBytes += m.StoredSize
	}
}

// manifest reads m again, as it is stored.
func (j *job) manifest(ctx context.Context, m snapshot.Manifest) ([]byte, error) {
	data, err := j.from.RawManifest(ctx, m.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, gone(m)
	case errors.Is(err, archive.ErrCorrupt):
		return nil, &damaged{m.Name, err}
	case err != nil:
		return nil, err
	}
	if now, err := snapshot.DecodeManifest(data); err != nil || now.StoredSHA256 != m.StoredSHA256 {
		return nil, gone(m) // and another one has come
	}
	return data, nil
}

// copy makes sure that the destination has the object as it is stored. It
// reports false if that was the case already.
func (j *job) copy(ctx context.Context, it Item) (sent bool, err error) {
	m := it.Manifest
	if it.State == Missing {
		switch err := j.create(ctx, m); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrExist):
			return false, err
		}
	}
	err = j.readBack(ctx, m)
	if errors.Is(err, archive.ErrCorrupt) {
		if err := j.check(ctx, m); err != nil { // the stores may have copied a damaged object
			return false, err
		}
		return false, j.taken(m.Name, "an object with other bytes and without a manifest is there")
	}
	if err == nil {
		j.advanceHalf(m.StoredSize) // as if it had been sent
	}
	return false, err
}

// create copies the object and reads it back.
func (j *job) create(ctx context.Context, m snapshot.Manifest) error {
	byStores, err := j.to.ImportFrom(ctx, m, j.from)
	switch {
	case err != nil && !errors.Is(err, fs.ErrExist) && ctx.Err() == nil:
		j.Log.Warn("the stores cannot copy by themselves, the object goes through here", "snapshot", m.Name, "error", err)
		byStores = false
	case err != nil:
		return err
	}
	if !byStores {
		if err := j.stream(ctx, m); err != nil {
			return err
		}
	}
	err = j.readBack(ctx, m)
	switch {
	case err == nil && byStores:
		j.countByStores(m)
	case errors.Is(err, archive.ErrCorrupt):
		return errors.Join(j.check(ctx, m), fmt.Errorf("%w: the copy, which has no manifest, is left there: remove it", err))
	}
	return err
}

func (j *job) countByStores(m snapshot.Manifest) {
	j.advanceHalf(m.StoredSize) // as if it had been sent
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result.ByStores++
}

// stream creates the object with the bytes of the source, which are checked on
// the way.
func (j *job) stream(ctx context.Context, m snapshot.Manifest) error {
	s := j.newSource(ctx, m)
	defer s.Close()
	err := j.to.Import(ctx, m, s)
	if errors.Is(s.failed, archive.ErrCorrupt) {
		return &damaged{m.Name, s.failed}
	}
	if err != nil {
		s.takeBack()
	}
	return err
}

// readBack checks the object at the destination.
func (j *job) readBack(ctx context.Context, m snapshot.Manifest) error {
	stored, err := j.to.OpenStored(ctx, m)
	if err != nil {
		return fmt.Errorf("read back from %s: %w", j.to, err)
	}
	defer stored.Close()
	read := &counted{Reader: j.throttled(ctx, stored), advance: j.advanceHalf}
	if _, err := store.Drain(read); err != nil {
		read.takeBack()
		return fmt.Errorf("read back from %s: %w", j.to, err)
	}
	return nil
}

// check reads the object in the source after a copy of it was found wrong.
func (j *job) check(ctx context.Context, m snapshot.Manifest) error {
	s := j.newSource(ctx, m)
	defer s.Close()
	_, err := store.Drain(s)
	s.takeBack()
	if errors.Is(err, archive.ErrCorrupt) {
		return &damaged{m.Name, err}
	}
	return err
}

// repack packs the snapshot anew, for the recipients of the destination, and
// returns its new manifest. It reports false if that was done before.
func (j *job) repack(ctx context.Context, it Item) (manifest []byte, sent bool, err error) {
	m := it.Manifest
	target := j.target(m)
	if it.State == Missing {
		target, err = j.pack(ctx, m, target)
		sent = true
	}
	if it.State == Uploaded || errors.Is(err, fs.ErrExist) {
		target, err = j.adopt(ctx, j.target(m))
		sent = false
	}
	if err != nil {
		return nil, false, err
	}
	manifest, err = target.Encode()
	return manifest, sent, err
}

func (j *job) pack(ctx context.Context, m, target snapshot.Manifest) (snapshot.Manifest, error) {
	plain, err := j.from.Open(ctx, m)
	if err != nil {
		return target, orDamaged(m, err)
	}
	defer plain.Close()
	r := &watched{Reader: j.throttled(ctx, plain)}
	target, err = j.to.Put(ctx, target, r)
	if r.failed != nil {
		return target, orDamaged(m, r.failed)
	}
	if err == nil {
		j.advance(m.StoredSize)
	}
	return target, err
}

// adopt recognises what an earlier copy left by what is in it.
func (j *job) adopt(ctx context.Context, target snapshot.Manifest) (snapshot.Manifest, error) {
	m, err := j.to.Adopt(ctx, target)
	switch {
	case errors.Is(err, archive.ErrIdentity):
		return m, j.taken(target.Name, "an object without a manifest is there; if a copy was cut off it is the snapshot, "+
			"and recognised with its secret key in --identities-file")
	case errors.Is(err, archive.ErrCorrupt):
		return m, j.taken(target.Name, "an object with other content and without a manifest is there")
	case err == nil:
		j.advance(target.StoredSize)
	}
	return m, err
}

func orDamaged(m snapshot.Manifest, err error) error {
	if errors.Is(err, archive.ErrCorrupt) {
		return &damaged{m.Name, err}
	}
	return err
}

func gone(m snapshot.Manifest) error {
	return fmt.Errorf("%s: %w: copy again to see what is there now", m.Name, ErrGone)
}
