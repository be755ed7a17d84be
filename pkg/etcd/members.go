package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Voters returns how many members of the cluster vote. Only the member in use is
// asked, which may lag behind.
func (c *Client) Voters(ctx context.Context) (int, error) {
	members, err := c.members(ctx)
	n := 0
	for _, m := range members {
		if !m.IsLearner {
			n++
		}
	}
	return n, err
}

func (c *Client) members(ctx context.Context) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	r, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: list members: %w", c.Endpoint(), explain(err))
	}
	return r.Members, nil
}

// Member is what a member of the cluster says of itself, without asking others.
type Member struct {
	ID       uint64
	Name     string
	Endpoint string // where it answers
	Beside   bool   // it is the one of the first endpoint
	Leader   bool
	LeaderID uint64
	Applied  uint64 // raft index
	Space
}

// Members asks each member of the cluster, learners too, at any endpoint that is known
// of it: those of Config, and those that it advertises. The error is about the first
// that does not answer, or does not know a leader.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	listed, err := c.members(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Member, 0, len(listed))
	for _, m := range listed {
		found, err := c.member(ctx, m)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// member finds a member. An endpoint at which another one answers is not its own,
// whoever advertises it.
func (c *Client) member(ctx context.Context, m *etcdserverpb.Member) (Member, error) {
	var errs []error
	endpoints := slices.Concat(c.endpoints, m.ClientURLs)
	for i, endpoint := range endpoints {
		if slices.Contains(endpoints[:i], endpoint) {
			continue
		}
		r, err := c.ask(ctx, endpoint)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
		case r.Header.MemberId != m.ID:
			continue
		case r.Leader == 0:
			return Member{}, fmt.Errorf("member %s at %s knows no leader", m.Name, endpoint)
		default:
			return Member{
				ID: m.ID, Name: m.Name, Endpoint: endpoint, Beside: i == 0, Leader: r.Leader == m.ID, LeaderID: r.Leader,
				Applied: r.RaftAppliedIndex, Space: spaceOf((*etcdserverpb.StatusResponse)(r)),
			}, nil
		}
	}
	return Member{}, fmt.Errorf("member %s (%x) answers at none of its endpoints: %w", m.Name, m.ID, errors.Join(errs...))
}

func (c *Client) ask(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	r, err := client.Status(ctx, endpoint)
	if err != nil {
		return nil, explain(err)
	}
	return r, nil
}

// Defragment has the member at endpoint write its database anew, without what is not
// in use. It answers nothing meanwhile, some seconds for each GiB; when ctx ends it
// goes on nevertheless.
func (c *Client) Defragment(ctx context.Context, endpoint string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if _, err := client.Defragment(ctx, endpoint); err != nil {
		return fmt.Errorf("etcd at %s: defragment: %w", endpoint, explain(err))
	}
	return nil
}
