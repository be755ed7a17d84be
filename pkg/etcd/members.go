package etcd

import (
	"context"
	"fmt"
)

// Voters returns how many members of the cluster vote. Only the member in use is
// asked, which may lag behind.
func (c *Client) Voters(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return 0, err
	}
	r, err := client.MemberList(ctx)
	if err != nil {
		return 0, fmt.Errorf("etcd at %s: list members: %w", c.Endpoint(), explain(err))
	}
	n := 0
	for _, m := range r.Members {
		if !m.IsLearner {
			n++
		}
	}
	return n, nil
}
