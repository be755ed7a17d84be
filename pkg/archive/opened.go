package archive

import (
	"context"
	"fmt"
	"io"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// PutOpened is Put with a deeper look at what was stored, see CheckOpened.
func (a *Archive) PutOpened(ctx context.Context, m snapshot.Manifest, plain io.Reader) (snapshot.Manifest, error) {
	m, err := a.put(ctx, m, plain)
	if err != nil {
		return m, err
	}
	return m, a.CheckOpened(ctx, m)
}

// CheckOpened opens what is stored and reads it to its end. What is encrypted, and
// cannot be opened for want of identities, is read as it is stored.
func (a *Archive) CheckOpened(ctx context.Context, m snapshot.Manifest) error {
	if s, err := m.Snapshot(); err == nil && s.Encrypted && a.Identities == nil {
		return a.readBack(ctx, m)
	}
	r, err := a.Open(ctx, m)
	if err == nil {
		defer r.Close()
		_, err = store.Drain(r)
	}
	if err != nil {
		return fmt.Errorf("open %s again: %w", m.Name, err)
	}
	return nil
}

// Stored returns what the store says of a snapshot's object; its name is the
// snapshot's.
func (a *Archive) Stored(ctx context.Context, m snapshot.Manifest) (store.Info, error) {
	infos, err := a.store.List(ctx, objectName(m.Name))
	if err != nil {
		return store.Info{}, fmt.Errorf("look at %s: %w", m.Name, err)
	}
	for _, info := range infos {
		if info.Name == objectName(m.Name) {
			info.Name = m.Name
			return info, nil
		}
	}
	return store.Info{}, corrupt(m.Name, "object is missing")
}
