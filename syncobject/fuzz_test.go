package syncobject

import (
	"bytes"
	"errors"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// FuzzParseOwner: what is accepted as owner.json says how long to wait, and is read
// again as it was written.
func FuzzParseOwner(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"id":"a","epoch":1,"lineage":"l","state":"Held","instance":"i","leaseSeconds":120,"killSeconds":30,"watchdogSeconds":60,"implicitFencing":true}`))
	f.Add([]byte(`{"schemaVersion":1,"id":"a","state":"Released","new":{"x":[1,2]}}`))
	f.Add([]byte(`{"schemaVersion":2,"id":"a","state":"Held"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseOwner(data)
		if err != nil {
			if errors.Is(err, ErrMalformed) == errors.Is(err, ErrUnknown) {
				t.Fatalf("%v is of no class, or of both", err)
			}
			return
		}
		if timing := o.Timing(); timing.Bound() <= 0 {
			t.Fatalf("%s is waited for %s", data, timing.Bound())
		}
		once, err := o.Encode()
		if errors.Is(err, ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("%s is read, but not written: %v", data, err)
		}
		again, err := ParseOwner(once)
		if err != nil {
			t.Fatalf("%s is written, but not read: %v", once, err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("written once %s, then %s, %v", once, twice, err)
		}
	})
}

// FuzzLoad reads arbitrary bytes as the list of a set whose digest fits.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`[{"name":"full-0000000000000100-20261120T231600Z.db.zst","kind":"full","size":1,"sha256":"0000000000000000000000000000000000000000000000000000000000000000","revision":100}]`), 1)
	f.Add([]byte(`[]`), 0)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		s := mem.New()
		if _, err := s.Create(t.Context(), "sets/x.json", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		set := Set{List: &List{Name: "sets/x.json", SHA256: hexSHA256(data), Count: count}}
		items, err := set.Load(t.Context(), s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("not classified: %v", err)
			}
			return
		}
		if len(items) != count {
			t.Fatalf("%d items of %d", len(items), count)
		}
		for _, i := range items {
			if err := i.check(); err != nil {
				t.Fatalf("accepted %+v: %v", i, err)
			}
		}
	})
}
