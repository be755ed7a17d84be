package delta

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt is wrapped when the bytes are not a delta that an Encoder
	// wrote and closed. An error of the reader below does not wrap it.
	ErrCorrupt = errors.New("corrupt delta")
	// ErrGap is wrapped when the revisions do not ascend one by one.
	ErrGap = errors.New("gap in the revisions")
)

const (
	magic   = "EFDELTA"
	version = 1

	kindEvent = 'e'
	kindLease = 'l'

	// maxRecord bounds a record, in bytes. etcd refuses requests of this size
	// by far, however it is set up: gRPC ends at 2 GiB, etcd recommends 10 MiB.
	maxRecord = 512 << 20
)

// The fields of the protobuf messages.
const (
	fieldEventType = 1
	fieldEventKV   = 2

	fieldKey         = 1
	fieldModRevision = 3

	fieldLeaseID  = 1
	fieldLeaseTTL = 2
)

// Lease tells of a lease that an event mentions.
type Lease struct {
	ID int64 // not 0
	// TTL is what was granted, in seconds. 0: unknown, the lease was already
	// gone when it was looked up.
	TTL int64
}

// Summary is what the trailer says.
type Summary struct {
	First, Last    int64 // revisions, both included
	Events, Leases int64 // counts
}

// sequence follows the revisions of a delta.
type sequence struct {
	first, last int64
	sub         int64 // of the event added last
	events      int64
}

// add leaves s as it is if revision does not continue it.
func (s *sequence) add(revision int64) error {
	switch {
	case revision <= 0:
		return fmt.Errorf("%w: an event of revision %d", ErrGap, revision)
	case s.events == 0 && revision != s.first:
		return fmt.Errorf("%w: the first event is of revision %d, expected %d", ErrGap, revision, s.first)
	case s.events > 0 && revision != s.last && revision != s.last+1:
		return fmt.Errorf("%w: an event of revision %d follows one of %d", ErrGap, revision, s.last)
	case revision == s.last:
		s.sub++
	default:
		s.last, s.sub = revision, 0
	}
	s.events++
	return nil
}
