package bootstrap

import (
	"context"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// Disk is the data dir that is prepared.
type Disk interface {
	// Empty and Look are those of datadir.Dir.
	Empty() (bool, error)
	Look() (datadir.State, error)
	// Origin is restorer.ReadOrigin.
	Origin() (restorer.Origin, error)
	// Restore is Restorer.Do, of one that is locked.
	Restore(ctx context.Context, plan restorer.Plan) (restorer.Result, error)
}

// folder is the Disk of a Bootstrap.
type folder struct {
	datadir.Dir
	*Bootstrap
}

func (b *Bootstrap) disk() Disk {
	if b.Disk != nil {
		return b.Disk
	}
	return folder{datadir.Dir{Data: b.dataDir}, b}
}

func (f folder) Origin() (restorer.Origin, error) { return restorer.ReadOrigin(f.Data) }

func (f folder) Restore(ctx context.Context, plan restorer.Plan) (restorer.Result, error) {
	r := restorer.New(f.archive)
	r.Locked = true
	stop := f.report(ctx, r)
	defer stop()
	return r.Do(ctx, plan, f.Data)
}
