package delta

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// parseEvent reads of an mvccpb.Event what a Record tells, without a copy.
func parseEvent(b []byte) (Record, error) {
	var r Record
	var kind uint64
	err := eachField(b, func(field protowire.Number, value []byte, number uint64) bool {
		switch field {
		case fieldEventType:
			kind = number
			return value == nil
		case fieldEventKV:
			twice := r.KeyValue != nil
			r.KeyValue = value
			return value != nil && !twice
		}
		return true
	})
	if err != nil {
		return Record{}, err
	}
	if kind > uint64(mvccpb.Event_DELETE) {
		return Record{}, corrupt("an event is of the unknown type %d", kind)
	}
	r.Tombstone = kind == uint64(mvccpb.Event_DELETE)
	return r, r.parseKeyValue()
}

func (r *Record) parseKeyValue() error {
	err := eachField(r.KeyValue, func(field protowire.Number, value []byte, number uint64) bool {
		switch field {
		case fieldKey:
			r.Key = value
			return value != nil
		case fieldModRevision:
			r.Revision = int64(number)
			return value == nil
		}
		return true
	})
	if err == nil && len(r.Key) == 0 {
		err = corrupt("an event has no key")
	}
	return err
}

func parseLease(b []byte) (Lease, error) {
	var l Lease
	err := eachField(b, func(field protowire.Number, value []byte, number uint64) bool {
		switch field {
		case fieldLeaseID:
			l.ID = int64(number)
			return value == nil
		case fieldLeaseTTL:
			l.TTL = int64(number)
			return value == nil
		}
		return true
	})
	if err == nil && (l.ID == 0 || l.TTL < 0) {
		err = corrupt("a lease has id %x and a TTL of %d s", l.ID, l.TTL)
	}
	return l, err
}

// eachField calls do with the fields of a protobuf message: those of bytes with
// a value that is not nil, varints with their number; other types it skips. The
// message is refused if do returns false.
func eachField(b []byte, do func(field protowire.Number, value []byte, number uint64) bool) error {
	for len(b) > 0 {
		field, wireType, n := protowire.ConsumeTag(b)
		if n < 0 {
			return corrupt("a record is no protobuf message")
		}
		b = b[n:]
		var value []byte
		var number uint64
		known := true
		switch wireType {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			known = false
			n = protowire.ConsumeFieldValue(field, wireType, b)
		}
		if n < 0 || known && !do(field, slices.Clip(value), number) {
			return corrupt("a record is no message that etcd sends")
		}
		b = b[n:]
	}
	return nil
}
