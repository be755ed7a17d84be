package snapshotter

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

// revisions are all events of some revisions, and the granted TTLs in seconds
// of those of their leases that the segment does not know.
type revisions struct {
	events []*mvccpb.Event
	ttl    map[int64]int64
}

// segment is a delta in the making: packed events from first to whole.
type segment struct {
	line    lineID
	first   int64
	whole   int64           // first-1 while empty
	leases  map[int64]bool  // recorded: every delta tells of all leases it mentions
	buffer  *archive.Buffer // nil while empty
	encoder *delta.Encoder  // into buffer
}

func newSegment(first int64, line lineID) *segment {
	return &segment{line: line, first: first, whole: first - 1, leases: map[int64]bool{}}
}

func (s *segment) empty() bool { return s.whole < s.first }

// size returns the packed bytes held.
func (s *segment) size() int {
	if s.buffer == nil {
		return 0
	}
	return s.buffer.Len()
}

// add packs r. After delta.ErrGap the segment is whole up to the revision before;
// other errors do not happen in memory.
func (s *segment) add(r revisions) error {
	if s.buffer == nil {
		b, err := archive.NewBuffer()
		if err != nil {
			return err
		}
		s.buffer, s.encoder = b, delta.NewEncoder(b, s.first)
	}
	for i, e := range r.events {
		if err := s.addLease(e.Kv.Lease, r.ttl); err != nil {
			return err
		}
		if err := s.encoder.Event(e); err != nil {
			return fmt.Errorf("pack revision %d: %w", e.Kv.ModRevision, err)
		}
		if i+1 == len(r.events) || r.events[i+1].Kv.ModRevision != e.Kv.ModRevision {
			s.whole = e.Kv.ModRevision
		}
	}
	return nil
}

func (s *segment) addLease(id int64, ttl map[int64]int64) error {
	if id == 0 || s.leases[id] {
		return nil
	}
	s.leases[id] = true
	return s.encoder.Lease(delta.Lease{ID: id, TTL: ttl[id]})
}

// seal ends the delta.
func (s *segment) seal() (delta.Summary, error) {
	summary, err := s.encoder.Close()
	if err == nil {
		err = s.buffer.Close()
	}
	if err != nil {
		return summary, fmt.Errorf("seal the delta from revision %d: %w", s.first, err)
	}
	return summary, nil
}
