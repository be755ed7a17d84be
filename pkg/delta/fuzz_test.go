package delta_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

// FuzzDecode reads arbitrary bytes, as they are and with a digest that fits, so
// that all of the decoder is reached. What it accepts must survive being written
// and read again.
func FuzzDecode(f *testing.F) {
	f.Add(sample(f))
	f.Add(encode(f, 1, put("k", "v", 1)))
	f.Add([]byte("EFDELTA\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		variants := [][]byte{data}
		if len(data) > sha256.Size {
			variants = append(variants, sealed(data[:len(data)-sha256.Size]))
		}
		for _, data := range variants {
			records, summary, err := decode(bytes.NewReader(data))
			if err != nil {
				if !errors.Is(err, delta.ErrCorrupt) {
					t.Fatalf("not classified: %v", err)
				}
				continue
			}
			once := rewrite(t, summary.First, records)
			again, summary2, err := decode(bytes.NewReader(once))
			if err != nil || summary2 != summary || !slices.EqualFunc(again, records, sameMeaning) {
				t.Fatalf("%v\nfirst read %+v %+v\nthen %+v %+v", err, summary, records, summary2, again)
			}
			if twice := rewrite(t, summary.First, again); !bytes.Equal(once, twice) {
				t.Fatalf("written once %x, then %x", once, twice)
			}
		}
	})
}

func rewrite(t *testing.T, first int64, records []delta.Record) []byte {
	var items []any
	for _, r := range records {
		if r.Lease.ID != 0 {
			items = append(items, r.Lease)
			continue
		}
		ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
		if r.Tombstone {
			ev.Type = mvccpb.Event_DELETE
		}
		if err := proto.Unmarshal(r.KeyValue, ev.Kv); err != nil {
			t.Fatalf("accepted %x, which is no KeyValue: %v", r.KeyValue, err)
		}
		items = append(items, ev)
	}
	return encode(t, first, items...)
}

// sameMeaning does not ask for the same bytes of a KeyValue: an encoder other
// than etcd's may order them differently.
func sameMeaning(a, b delta.Record) bool {
	var kvA, kvB mvccpb.KeyValue
	if proto.Unmarshal(a.KeyValue, &kvA) != nil || proto.Unmarshal(b.KeyValue, &kvB) != nil || !proto.Equal(&kvA, &kvB) {
		return false
	}
	a.KeyValue, b.KeyValue = nil, nil
	return sameRecord(a, b)
}
