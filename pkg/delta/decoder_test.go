package delta_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

func TestEveryFlippedByteIsFound(t *testing.T) {
	data := sample(t)
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			broken := bytes.Clone(data)
			broken[i] ^= flip
			if _, _, err := decode(bytes.NewReader(broken)); !errors.Is(err, delta.ErrCorrupt) {
				t.Errorf("byte %d of %d changed by %#x: %v", i, len(data), flip, err)
			}
		}
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	data := sample(t)
	for n := range data {
		if _, _, err := decode(bytes.NewReader(data[:n])); !errors.Is(err, delta.ErrCorrupt) {
			t.Errorf("the first %d bytes of %d: %v", n, len(data), err)
		}
	}
	for _, more := range []string{"\x00", "x", string(data)} {
		if _, _, err := decode(strings.NewReader(string(data) + more)); !errors.Is(err, delta.ErrCorrupt) {
			t.Errorf("%d bytes more: %v", len(more), err)
		}
	}
}

// frame returns a record as it is stored.
func frame(kind byte, message ...byte) string {
	return string(append(protowire.AppendVarint(nil, uint64(1+len(message))), kind)) + string(message)
}

// kv returns the protobuf of an event that puts "k" at a small revision.
func kv(revision byte) []byte { return []byte{0x12, 5, 0x0a, 1, 'k', 0x18, revision} }

func trailer(first, last, events, leases uint64) string {
	b := []byte{0}
	for _, n := range []uint64{first, last, events, leases} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return string(b)
}

// The digest is right in all of these: it protects against accidents, and
// nothing protects a reader from a file that was made to harm him but himself.
func TestDecoderRefuses(t *testing.T) {
	const head = "EFDELTA\x01"
	one := frame('e', kv(7)...)
	for _, c := range []struct {
		name, body string
		gap        bool
	}{
		{"another magic", "EFDELTB\x01" + one + trailer(7, 7, 1, 0), false},
		{"a newer version", "EFDELTA\x02" + one + trailer(7, 7, 1, 0), false},
		{"no event", head + trailer(0, 0, 0, 0), false},
		{"only a lease", head + frame('l', 8, 5) + trailer(0, 0, 0, 1), false},
		{"another first revision", head + one + trailer(6, 7, 1, 0), false},
		{"another last revision", head + one + trailer(7, 8, 1, 0), false},
		{"another count of events", head + one + trailer(7, 7, 2, 0), false},
		{"another count of leases", head + one + trailer(7, 7, 1, 1), false},
		{"a missing revision", head + one + frame('e', kv(9)...) + trailer(7, 9, 2, 0), true},
		{"a descending revision", head + one + frame('e', kv(6)...) + trailer(7, 6, 2, 0), true},
		{"revision 0", head + frame('e', kv(0)...) + trailer(0, 0, 1, 0), true},
		{"an unknown kind", head + one + frame('x', 8, 5) + trailer(7, 7, 1, 0), false},
		{"a padded length", head + "\x88\x00" + one[1:] + trailer(7, 7, 1, 0), false},
		{"an endless length", head + strings.Repeat("\xff", 20) + trailer(7, 7, 1, 0), false},
		{"a length above the limit", head + "\x81\x80\x80\x80\x02" + one + trailer(7, 7, 1, 0), false},
		{"an event without a key value", head + frame('e', 8, 1) + trailer(7, 7, 1, 0), false},
		{"two key values", head + frame('e', append(kv(7), kv(7)...)...) + trailer(7, 7, 1, 0), false},
		{"an unknown type", head + frame('e', append(kv(7), 8, 2)...) + trailer(7, 7, 1, 0), false},
		{"a type of bytes", head + frame('e', append(kv(7), 10, 0)...) + trailer(7, 7, 1, 0), false},
		{"a key value of varint", head + frame('e', 0x10, 7) + trailer(7, 7, 1, 0), false},
		{"an empty key", head + frame('e', 0x12, 4, 0x0a, 0, 0x18, 7) + trailer(7, 7, 1, 0), false},
		{"a key of varint", head + frame('e', 0x12, 4, 8, 1, 0x18, 7) + trailer(7, 7, 1, 0), false},
		{"a revision of bytes", head + frame('e', 0x12, 5, 0x0a, 1, 'k', 0x1a, 0) + trailer(7, 7, 1, 0), false},
		{"a cut field", head + frame('e', kv(7)[:6]...) + trailer(7, 7, 1, 0), false},
		{"field number 0", head + frame('e', append(kv(7), 0, 0)...) + trailer(7, 7, 1, 0), false},
		{"lease 0", head + one + frame('l', 16, 5) + trailer(7, 7, 1, 1), false},
		{"a lease id of bytes", head + one + frame('l', 10, 0) + trailer(7, 7, 1, 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := decode(bytes.NewReader(sealed([]byte(c.body))))
			if !errors.Is(err, delta.ErrCorrupt) || errors.Is(err, delta.ErrGap) != c.gap {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, _, err := decode(bytes.NewReader(sealed([]byte(head + one + trailer(7, 7, 1, 0))))); err != nil {
		t.Errorf("and the sound one: %v", err)
	}
}

// Fields that a later etcd may add are carried along.
func TestDecoderKeepsUnknownFields(t *testing.T) {
	event := []byte{0x12, 9, 0x0a, 1, 'k', 0x18, 7, 0x7a, 2, 'n', 'e', 0xfa, 1, 0}
	body := "EFDELTA\x01" + frame('e', event...) + frame('l', 8, 5, 16, 9, 0x1d, 1, 2, 3, 4) + trailer(7, 7, 1, 1)
	records, _, err := decode(bytes.NewReader(sealed([]byte(body))))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(records[0].KeyValue); got != "\x0a\x01k\x18\x07\x7a\x02ne" {
		t.Errorf("key value %x", got)
	}
	if got := records[1].Lease; got != (delta.Lease{ID: 5, TTL: 9}) {
		t.Errorf("lease %+v", got)
	}
}

// The store's error is the caller's to classify; it is not a corrupt delta.
func TestErrorsOfTheReaderPass(t *testing.T) {
	data := sample(t)
	for _, n := range []int{0, 4, 8, 9, 40, len(data) - 33, len(data) - 1, len(data)} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errBroken))
		_, _, err := decode(r)
		if !errors.Is(err, errBroken) || errors.Is(err, delta.ErrCorrupt) {
			t.Errorf("after %d of %d bytes: %v", n, len(data), err)
		}
	}
}

func TestErrorsStay(t *testing.T) {
	for _, data := range [][]byte{sample(t), sample(t)[:50]} {
		d := delta.NewDecoder(bytes.NewReader(data))
		var err error
		for err == nil {
			_, err = d.Next()
		}
		if _, again := d.Next(); again != err {
			t.Errorf("first %v, then %v", err, again)
		}
	}
}

func TestForgedLengthDoesNotAllocate(t *testing.T) {
	const claimed = 400 << 20
	data := append([]byte("EFDELTA\x01"), protowire.AppendVarint(nil, claimed)...)
	data = append(data, bytes.Repeat([]byte{'e'}, 1000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := decode(bytes.NewReader(data))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, delta.ErrCorrupt) {
		t.Fatal(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", took, len(data))
	}
}

func ExampleDecoder() {
	var b bytes.Buffer
	e := delta.NewEncoder(&b, 41)
	_ = e.Event(put("a", "1", 41))
	_ = e.Event(put("a", "2", 42))
	_ = e.Event(remove("b", 42))
	_, _ = e.Close()

	d := delta.NewDecoder(&b)
	for {
		r, err := d.Next()
		if err != nil { // io.EOF: all of it was there, and sound
			fmt.Println(err)
			break
		}
		fmt.Printf("%d.%d %s deleted=%t\n", r.Revision, r.Sub, r.Key, r.Tombstone)
	}
	// Output:
	// 41.0 a deleted=false
	// 42.0 a deleted=false
	// 42.1 b deleted=true
	// EOF
}
