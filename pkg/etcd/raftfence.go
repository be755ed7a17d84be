package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// reservedMember in its top byte marks a member id that no member has. The
	// restorer removes alarms of such members.
	reservedMember  = 0xFE
	generationBits  = 56
	greatestFence   = 1<<generationBits - 1
	fenceOfRaft     = etcdserverpb.AlarmType_CORRUPT
	reservedOfAlarm = uint64(reservedMember) << generationBits
)

// ErrGeneration is returned for a generation that does not fit a raft fence.
var ErrGeneration = errors.New("generation does not fit the fence")

// RaftFence fences all members at once (HANDOVER §6): from a place in the raft log on,
// no member applies a put, delete, transaction, compaction, or grant or revocation of a lease, also after a
// restart. Reads, HashKV and snapshots go on. It needs a quorum, and may be
// repeated. Revisions of later linearizable reads bound all that was acknowledged.
//
// The generation is that of the hand-over, from 1; it is kept in the alarm
// CORRUPT of a member that does not exist. NOSPACE would let deletes pass.
func (c *Client) RaftFence(ctx context.Context, generation int64) error {
	return c.alarm(ctx, etcdserverpb.AlarmRequest_ACTIVATE, generation)
}

// RaftUnfence lifts the fence of a generation at once. It is no error if there
// is none.
func (c *Client) RaftUnfence(ctx context.Context, generation int64) error {
	return c.alarm(ctx, etcdserverpb.AlarmRequest_DEACTIVATE, generation)
}

// RaftFenced returns the newest generation that the cluster is fenced for. The
// answer is linearizable.
func (c *Client) RaftFenced(ctx context.Context) (generation int64, fenced bool, err error) {
	r, err := c.alarmRequest(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET, Alarm: fenceOfRaft})
	if err != nil {
		return 0, false, err
	}
	for _, a := range r.Alarms {
		if a.MemberID>>generationBits == reservedMember {
			generation, fenced = max(generation, int64(a.MemberID&greatestFence)), true
		}
	}
	return generation, fenced, nil
}

func (c *Client) alarm(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction, generation int64) error {
	if generation < 1 || generation > greatestFence {
		return fmt.Errorf("%w: %d", ErrGeneration, generation)
	}
	_, err := c.alarmRequest(ctx, &etcdserverpb.AlarmRequest{
		Action: action, Alarm: fenceOfRaft, MemberID: reservedOfAlarm | uint64(generation),
	})
	return err
}

// alarmRequest is bounded by DefaultTimeout.
func (c *Client) alarmRequest(ctx context.Context, r *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	// clientv3 does not activate alarms.
	answer, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: raft fence: %w", c.Endpoint(), explain(rpctypes.Error(err)))
	}
	return answer, nil
}
