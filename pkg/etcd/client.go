package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Client talks to one member of an etcd cluster at a time. It is safe for
// concurrent use.
type Client struct {
	config    clientv3.Config
	endpoints []string
	metrics   *Metrics
	moving    sync.Mutex   // held while current changes
	current   atomic.Int64 // index of the endpoint in use

	dialing sync.Mutex // guards dialed
	dialed  *clientv3.Client
}

// Dial returns a Client. It reads the files of cfg, and does not wait for etcd.
// ctx bounds the life of the client's connections.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	conf, err := cfg.clientConfig()
	if err != nil {
		return nil, err
	}
	conf.Context = ctx
	return &Client{config: conf, endpoints: cfg.Endpoints, metrics: cfg.Metrics}, nil
}

// client returns the connection. It is made when it is first needed, and again
// if that failed: with a user and a password clientv3 asks etcd for a token.
func (c *Client) client() (*clientv3.Client, error) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	if c.dialed != nil {
		return c.dialed, nil
	}
	c.config.Endpoints = []string{c.Endpoint()}
	dialed, err := clientv3.New(c.config)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: connect: %w", c.Endpoint(), explain(err))
	}
	c.dialed = dialed
	return dialed, nil
}

// Close ends the client's connections.
func (c *Client) Close() error {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	if c.dialed == nil {
		return nil
	}
	return c.dialed.Close()
}

// Endpoint is the member in use.
func (c *Client) Endpoint() string { return c.endpoints[c.current.Load()] }

// Status is what a member says of itself and its cluster.
type Status struct {
	Endpoint string
	// Revision is from a linearizable read: every write acknowledged before the
	// call has at most this revision, and the member has applied it.
	Revision int64
	// AuthRevision changes with users, roles and permissions, which have no
	// revision of their own.
	AuthRevision   uint64
	ClusterID      uint64
	MemberID       uint64
	Leader         bool
	RaftIndex      uint64
	Version        string // of the etcd binary
	StorageVersion string // of the data, since etcd 3.6
	Space
}

// Status asks the member in use, and if it does not answer the others in turn,
// each for at most DefaultTimeout. The error joins what all of them said.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var errs []error
	for range c.endpoints {
		at := c.current.Load()
		s, err := c.statusOf(ctx, c.endpoints[at])
		if err == nil {
			return s, nil
		}
		errs = append(errs, fmt.Errorf("etcd at %s: %w", c.endpoints[at], err))
		if ctx.Err() != nil {
			break
		}
		c.moveOn(at)
	}
	return Status{}, errors.Join(errs...)
}

// Healthy returns nil if the member in use answers a linearizable read. It costs
// etcd no write, which Status does: AuthStatus goes through raft.
func (c *Client) Healthy(ctx context.Context) error {
	if _, err := c.revision(ctx); err != nil {
		return fmt.Errorf("etcd at %s: %w", c.Endpoint(), explain(err))
	}
	return nil
}

// moveOn leaves the endpoint at from, unless another call has done so.
func (c *Client) moveOn(from int64) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if len(c.endpoints) == 1 || c.current.Load() != from {
		return
	}
	next := (from + 1) % int64(len(c.endpoints))
	c.current.Store(next)
	c.dialing.Lock()
	defer c.dialing.Unlock()
	if c.dialed != nil {
		c.dialed.SetEndpoints(c.endpoints[next])
	}
}

func (c *Client) statusOf(ctx context.Context, endpoint string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	// Without clientv3's retries an etcd that is not there is known at once, and
	// by its cause.
	client, err := c.client()
	if err != nil {
		return Status{}, err
	}
	maintenance := etcdserverpb.NewMaintenanceClient(client.ActiveConnection())
	if _, err := maintenance.Status(ctx, &etcdserverpb.StatusRequest{}); err != nil {
		return Status{}, err
	}
	revision, err := c.revision(ctx)
	if err != nil {
		return Status{}, explain(err)
	}
	// Only now: whoever answered the read has applied what was committed then.
	member, err := maintenance.Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return Status{}, err
	}
	auth, err := client.AuthStatus(ctx)
	if err != nil {
		return Status{}, explain(err)
	}
	s := Status{
		Endpoint:       endpoint,
		Revision:       revision,
		AuthRevision:   auth.AuthRevision,
		ClusterID:      member.Header.ClusterId,
		MemberID:       member.Header.MemberId,
		Leader:         member.Leader == member.Header.MemberId,
		RaftIndex:      member.RaftIndex,
		Version:        member.Version,
		StorageVersion: member.StorageVersion,
		Space:          spaceOf(member),
	}
	if endpoint == c.endpoints[0] {
		c.metrics.see(s.Space)
	}
	return s, nil
}

// explain says what to do about an error whose cause is a missing flag.
func explain(err error) error {
	if errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrPermissionDenied) {
		return fmt.Errorf("%w: this etcd wants a user with the role root, see --etcd-user-file", err)
	}
	return err
}

// revision reads linearizably; that the key does not exist does not matter.
func (c *Client) revision(ctx context.Context) (int64, error) {
	client, err := c.client()
	if err != nil {
		return 0, err
	}
	r, err := client.Get(ctx, "health", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// HashKV asks the member in use for the hash of its key space at a revision, 0
// for the newest. It reads the whole key space, so the call is bounded by ctx
// alone.
func (c *Client) HashKV(ctx context.Context, revision int64) (snapshot.HashKV, error) {
	client, err := c.client()
	if err != nil {
		return snapshot.HashKV{}, err
	}
	r, err := client.HashKV(ctx, c.Endpoint(), revision)
	if err != nil {
		return snapshot.HashKV{}, fmt.Errorf("etcd at %s: hash at revision %d: %w", c.Endpoint(), revision, err)
	}
	if revision == 0 {
		revision = r.Header.Revision
	}
	return snapshot.HashKV{Revision: revision, CompactRevision: r.CompactRevision, Hash: r.Hash}, nil
}

// GrantedTTL returns the time to live in seconds that a lease was granted, 0 if
// there is no such lease any more.
func (c *Client) GrantedTTL(ctx context.Context, lease int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return 0, err
	}
	r, err := client.TimeToLive(ctx, clientv3.LeaseID(lease))
	if err != nil {
		return 0, fmt.Errorf("etcd at %s: lease %x: %w", c.Endpoint(), lease, err)
	}
	return r.GrantedTTL, nil
}
