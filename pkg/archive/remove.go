package archive

import (
	"context"
	"fmt"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Remove deletes a snapshot, its manifest first, so that what is listed is
// whole at every moment.
func (a *Archive) Remove(ctx context.Context, m snapshot.Manifest) error {
	if err := a.store.Remove(ctx, manifestName(m.Name)); err != nil {
		return fmt.Errorf("remove manifest of %s: %w", m.Name, err)
	}
	a.mu.Lock()
	delete(a.known, m.Name)
	a.mu.Unlock()
	crashpoint.Here(crashpoint.ManifestRemoved)
	return a.RemoveStray(ctx, m.Name)
}

// RemoveStray deletes an object that has no manifest.
func (a *Archive) RemoveStray(ctx context.Context, name string) error {
	if err := a.store.Remove(ctx, objectName(name)); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
