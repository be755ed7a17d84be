package history

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Content is what an etcd has of a history.
type Content struct {
	Revision int64            // it is at
	First    int64            // the revision from which on it still has each write
	Writes   []Write          // from First to Revision, in order
	Last     map[string]Write // of each key
}

// page is how many keys are asked for at a time.
const page = 5_000

// Content asks an etcd for what it has now.
func (h *History) Content(ctx context.Context, c *clientv3.Client) (Content, error) {
	s := Content{Last: map[string]Write{}}
	end := clientv3.GetPrefixRangeEnd(h.Prefix)
	newest := int64(0)
	for from := h.Prefix; ; {
		r, err := c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(s.Revision))
		if err != nil {
			return s, fmt.Errorf("read what is there: %w", err)
		}
		if s.Revision == 0 {
			s.Revision = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			w := Write{kv.ModRevision, string(kv.Key), string(kv.Value)}
			s.Last[w.Key], newest, from = w, max(newest, w.Revision), w.Key+"\x00"
		}
		if !r.More {
			break
		}
	}
	return s, s.replay(ctx, c, h.Prefix, newest)
}

// replay watches all that was written up to newest, as far as it is not compacted.
func (s *Content) replay(ctx context.Context, c *clientv3.Client, prefix string, newest int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.First = 1
	for s.First <= newest {
		err := s.follow(newest, c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(s.First)))
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
	return nil
}

// follow takes what a watch sends.
func (s *Content) follow(newest int64, sent clientv3.WatchChan) error {
	for r := range sent {
		if err := r.Err(); err != nil {
			s.First = max(s.First, r.CompactRevision+1)
			return fmt.Errorf("watch what was written: %w", err)
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision > newest {
				return nil
			}
			s.Writes = append(s.Writes, Write{e.Kv.ModRevision, string(e.Kv.Key), string(e.Kv.Value)})
		}
		if n := len(s.Writes); n > 0 && s.Writes[n-1].Revision == newest {
			return nil
		}
	}
	return errWatchEnded
}

var errWatchEnded = errors.New("watch what was written: it has ended before the newest write")
