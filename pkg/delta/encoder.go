package delta

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// blockSize is how many bytes are gathered before they are hashed and written.
const blockSize = 64 << 10

var errClosed = errors.New("delta encoder is closed")

// Encoder writes a delta. The same calls give the same bytes.
type Encoder struct {
	w      io.Writer
	hash   hash.Hash
	block  []byte
	seq    sequence
	leases int64
	err    error // why nothing can be written any more
}

// NewEncoder returns an Encoder that writes the changes from revision first on
// to w. What it writes is a delta only after Close.
func NewEncoder(w io.Writer, first int64) *Encoder {
	return &Encoder{
		w:     w,
		hash:  sha256.New(),
		block: append([]byte(magic), version),
		seq:   sequence{first: first},
	}
}

// Event appends ev without its PrevKv. Events come in etcd's order. One that
// does not continue the revisions so far is refused with ErrGap, one that etcd
// cannot have sent with another error; the Encoder is then as it was before the
// call. An error of w is returned by all later calls too.
func (e *Encoder) Event(ev *mvccpb.Event) error {
	if e.err != nil {
		return e.err
	}
	kv := ev.GetKv()
	kvSize := proto.Size(kv)
	size := 1 + protowire.SizeTag(fieldEventKV) + protowire.SizeBytes(kvSize)
	deleted := ev.GetType() == mvccpb.Event_DELETE
	if deleted {
		size += protowire.SizeTag(fieldEventType) + 1
	}
	if err := checkEvent(ev, size); err != nil {
		return err
	}
	if err := e.seq.add(kv.GetModRevision()); err != nil {
		return err
	}
	b := e.begin(kindEvent, size)
	if deleted {
		b = protowire.AppendTag(b, fieldEventType, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(mvccpb.Event_DELETE))
	}
	b = protowire.AppendTag(b, fieldEventKV, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(kvSize))
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(b, kv)
	if err != nil {
		e.err = fmt.Errorf("encode event of revision %d: %w", kv.GetModRevision(), err)
		return e.err
	}
	return e.end(b)
}

func checkEvent(ev *mvccpb.Event, size int) error {
	switch {
	case ev.GetType() != mvccpb.Event_PUT && ev.GetType() != mvccpb.Event_DELETE:
		return fmt.Errorf("event of revision %d has the unknown type %d", ev.GetKv().GetModRevision(), ev.GetType())
	case len(ev.GetKv().GetKey()) == 0:
		return fmt.Errorf("event of revision %d has no key", ev.GetKv().GetModRevision())
	case size > maxRecord:
		return fmt.Errorf("event of revision %d has %d bytes, the limit is %d", ev.GetKv().GetModRevision(), size, maxRecord)
	}
	return nil
}

// Lease appends l. It may stand anywhere among the events; by custom it comes
// before the first event that mentions it.
func (e *Encoder) Lease(l Lease) error {
	if e.err != nil {
		return e.err
	}
	if l.ID == 0 || l.TTL < 0 {
		return fmt.Errorf("no lease has id %x and a TTL of %d s", l.ID, l.TTL)
	}
	size := 1 + protowire.SizeTag(fieldLeaseID) + protowire.SizeVarint(uint64(l.ID))
	if l.TTL != 0 {
		size += protowire.SizeTag(fieldLeaseTTL) + protowire.SizeVarint(uint64(l.TTL))
	}
	b := e.begin(kindLease, size)
	b = protowire.AppendTag(b, fieldLeaseID, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(l.ID))
	if l.TTL != 0 {
		b = protowire.AppendTag(b, fieldLeaseTTL, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(l.TTL))
	}
	e.leases++
	return e.end(b)
}

// begin returns the block with the head of a record of size bytes.
func (e *Encoder) begin(kind byte, size int) []byte {
	return append(protowire.AppendVarint(e.block, uint64(size)), kind)
}

// end takes the block back with the record in it.
func (e *Encoder) end(block []byte) error {
	e.block = block
	if len(e.block) < blockSize {
		return nil
	}
	return e.flush()
}

func (e *Encoder) flush() error {
	_, _ = e.hash.Write(e.block) // a hash never fails
	if _, err := e.w.Write(e.block); err != nil {
		e.err = fmt.Errorf("write delta: %w", err)
	}
	e.block = e.block[:0]
	return e.err
}

// Close writes the trailer. It does not close the writer below. A delta without
// an event is refused.
func (e *Encoder) Close() (Summary, error) {
	if e.err != nil {
		return Summary{}, e.err
	}
	if e.seq.events == 0 {
		return Summary{}, errors.New("a delta needs an event, none was written")
	}
	s := Summary{First: e.seq.first, Last: e.seq.last, Events: e.seq.events, Leases: e.leases}
	e.block = append(e.block, 0)
	for _, n := range []int64{s.First, s.Last, s.Events, s.Leases} {
		e.block = binary.BigEndian.AppendUint64(e.block, uint64(n))
	}
	_, _ = e.hash.Write(e.block) // a hash never fails
	e.block = e.hash.Sum(e.block)
	if _, err := e.w.Write(e.block); err != nil {
		e.err = fmt.Errorf("write delta: %w", err)
		return Summary{}, e.err
	}
	e.err = errClosed
	return s, nil
}
