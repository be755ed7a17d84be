package server

import (
	"context"
	"errors"
	"io"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// errNotFrozen says that a cluster accepts writes.
var errNotFrozen = errors.New("the cluster is not frozen")

// Member is the etcd beside this process, and the cluster it belongs to.
type Member interface {
	// Probe says whether Fence would be permitted.
	Probe(gate fence.Process) error
	// Running reports whether an etcd has the data dir.
	Running() (bool, error)
	// Empty reports whether there is nothing in it for an etcd to start with.
	Empty() (bool, error)
	// Healthy returns nil if the member answers a linearizable read.
	Healthy(ctx context.Context) error
	// Fence ends the etcd of the data dir, and the gates with all they started,
	// and keeps any other from serving. It may be repeated.
	Fence(ctx context.Context, gates []fence.Process) error
	// Unfence lets an etcd serve again.
	Unfence() error
	// Offline returns all that the fenced member holds. fs.ErrNotExist: nothing.
	Offline(ctx context.Context) (*Content, error)
	Cluster
}

// Cluster is what sidecars of several members do together (HANDOVER §6).
type Cluster interface {
	// Standing tells where the member is in its cluster.
	Standing(ctx context.Context) (Standing, error)
	// Freeze makes the whole cluster refuse writes; Thaw ends that, for this
	// generation and those before; Frozen returns nil if it is frozen for it, and
	// errNotFrozen if it has answered that it is not.
	Freeze(ctx context.Context, generation int64) error
	Thaw(ctx context.Context, generation int64) error
	Frozen(ctx context.Context, generation int64) error
	// Revision returns one at or above that of every write that was acknowledged
	// before the call.
	Revision(ctx context.Context) (int64, error)
	// Online returns all that the frozen cluster has acknowledged.
	Online(ctx context.Context) (*Content, error)
}

// Standing is a member's place in its cluster.
type Standing struct {
	Members int    // that vote
	Leader  bool   // this one leads
	Member  string // its id, hexadecimal
}

// Content is a snapshot on its way into an archive. Close it.
type Content struct {
	io.ReadCloser
	// Manifest says what it knows of the content.
	Manifest snapshot.Manifest
	// HashKV computes the hash of the newest revision.
	HashKV func(ctx context.Context) (snapshot.HashKV, error)
	// SHA256 returns the digest, hexadecimal, of what was read to its end.
	SHA256 func() string
}
