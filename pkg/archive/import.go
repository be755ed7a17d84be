package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// RawManifest returns the manifest of the snapshot name as it is stored, checked.
// fs.ErrNotExist says that the snapshot is not there any more.
func (a *Archive) RawManifest(ctx context.Context, name string) ([]byte, error) {
	data, _, err := a.store.Read(ctx, manifestName(name))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", manifestName(name), err)
	}
	m, err := snapshot.DecodeManifest(data)
	if err != nil {
		return nil, corrupt(name, "%w", err)
	}
	if m.Name != name {
		return nil, corrupt(name, "its manifest is the one of %s", m.Name)
	}
	return data, nil
}

// Import stores the object of a snapshot as OpenStored of another archive gives
// it. It does not count before Commit, and the caller reads it back with
// OpenStored before that. fs.ErrExist says that there is an object, which may be
// the right one.
func (a *Archive) Import(ctx context.Context, m snapshot.Manifest, stored io.Reader) error {
	if _, err := a.store.Create(ctx, objectName(m.Name), stored); err != nil {
		return fmt.Errorf("store %s: %w", m.Name, err)
	}
	return nil
}

// ImportFrom is Import of what from holds, if the stores can do that between
// themselves; it reports false, having done nothing, if they cannot. Nobody has
// looked at the bytes.
func (a *Archive) ImportFrom(ctx context.Context, m snapshot.Manifest, from *Archive) (bool, error) {
	_, done, err := store.Copy(ctx, a.store, objectName(m.Name), from.store, objectName(m.Name))
	if err != nil {
		return done, fmt.Errorf("store %s: %w", m.Name, err)
	}
	return done, nil
}

// Adopt is Put for a snapshot whose object is there already: encrypted bytes are
// never the same twice, so what an earlier Put left is known only by what is in
// it, which takes an identity. M has the name and the digest of the plain bytes.
func (a *Archive) Adopt(ctx context.Context, m snapshot.Manifest) (snapshot.Manifest, error) {
	object, info, err := a.store.Open(ctx, objectName(m.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return m, corrupt(m.Name, "object is missing")
	}
	if err != nil {
		return m, fmt.Errorf("open %s: %w", m.Name, err)
	}
	stored := newDigest()
	plain, err := a.unpack(m, &teed{object, stored})
	if err != nil {
		return m, err
	}
	defer plain.Close()
	if _, err := store.Drain(plain); err != nil {
		return m, err
	}
	if stored.size != info.Size {
		return m, corrupt(m.Name, "%d bytes are stored, %d of them are the snapshot", info.Size, stored.size)
	}
	m.StoredSize, m.StoredSHA256 = stored.size, stored.SHA256()
	return m, nil
}

// teed hashes what is read.
type teed struct {
	io.ReadCloser
	digest *digest
}

func (t *teed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	_, _ = t.digest.Write(p[:n]) // a hash never fails
	return n, err
}
