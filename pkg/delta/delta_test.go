package delta_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

var update = flag.Bool("update", false, "write testdata anew")

// The format is a promise: what is stored today must be readable in years.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "sample.delta")
	data := sample(t)
	if *update {
		if err := os.WriteFile(golden, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("the encoder writes\n%x\nthe golden file is\n%x", data, want)
	}
	records, summary, err := decode(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if want := (delta.Summary{First: 10, Last: 12, Events: 4, Leases: 2}); summary != want {
		t.Errorf("summary %+v, want %+v", summary, want)
	}
	type place struct {
		revision, sub int64
		tombstone     bool
		key           string
		lease         delta.Lease
	}
	var got []place
	for _, r := range records {
		got = append(got, place{r.Revision, r.Sub, r.Tombstone, string(r.Key), r.Lease})
	}
	wantPlaces := []place{
		{10, 0, false, "/registry/pods/a", delta.Lease{}},
		{10, 1, true, "/registry/pods/b", delta.Lease{}},
		{11, 0, false, "/registry/pods/a", delta.Lease{}},
		{0, 0, false, "", delta.Lease{ID: 0x7587890, TTL: 30}},
		{12, 0, false, "/registry/leases/a", delta.Lease{}},
		{0, 0, false, "", delta.Lease{ID: -1}},
	}
	if !slices.Equal(got, wantPlaces) {
		t.Errorf("records\n%+v, want\n%+v", got, wantPlaces)
	}
}

// etcd keeps a KeyValue as its generated code marshals it: fields in the order
// of their numbers, defaults left out. These are such bytes, written by hand.
func TestKeyValueIsWhatEtcdKeeps(t *testing.T) {
	for _, c := range []struct {
		name  string
		event *mvccpb.Event
		want  string
	}{
		{
			"all fields",
			&mvccpb.Event{Kv: &mvccpb.KeyValue{
				Key: []byte("key"), CreateRevision: 5, ModRevision: 300, Version: 2, Value: []byte("value"), Lease: 0x1234,
			}},
			"\x0a\x03key" + "\x10\x05" + "\x18\xac\x02" + "\x20\x02" + "\x2a\x05value" + "\x30\xb4\x24",
		},
		{
			"no value, no lease",
			&mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 300, ModRevision: 300, Version: 1}},
			"\x0a\x01k" + "\x10\xac\x02" + "\x18\xac\x02" + "\x20\x01",
		},
		{
			"tombstone with its previous value",
			&mvccpb.Event{
				Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: 300},
				PrevKv: &mvccpb.KeyValue{Key: []byte("k"), Value: []byte("previous"), ModRevision: 299},
			},
			"\x0a\x01k" + "\x18\xac\x02",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, _, err := decode(bytes.NewReader(encode(t, 300, c.event)))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(records[0].KeyValue); got != c.want {
				t.Errorf("got %x, want %x", got, c.want)
			}
		})
	}
}

var leases = rapid.Custom(func(t *rapid.T) delta.Lease {
	return delta.Lease{
		ID:  rapid.Int64().Filter(func(id int64) bool { return id != 0 }).Draw(t, "id"),
		TTL: rapid.Int64Min(0).Draw(t, "ttl"),
	}
})

func drawEvent(t *rapid.T, revision int64) *mvccpb.Event {
	ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{
		Key:         rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "key"),
		ModRevision: revision,
	}}
	if rapid.Bool().Draw(t, "delete") {
		ev.Type = mvccpb.Event_DELETE
	} else {
		ev.Kv.CreateRevision = rapid.Int64Range(1, revision).Draw(t, "created")
		ev.Kv.Version = rapid.Int64Min(1).Draw(t, "version")
		ev.Kv.Value = rapid.SliceOf(rapid.Byte()).Draw(t, "value")
		ev.Kv.Lease = rapid.Int64().Draw(t, "lease")
	}
	if rapid.Bool().Draw(t, "with previous") {
		ev.PrevKv = &mvccpb.KeyValue{Key: ev.Kv.Key, Value: []byte("previous")}
	}
	return ev
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.OneOf(rapid.Int64Range(1, 1<<62), rapid.Just(int64(1))).Draw(t, "first")
		var b bytes.Buffer
		e := delta.NewEncoder(&b, first)
		var want []delta.Record
		revision, sub := first, int64(0)
		for i := range rapid.IntRange(1, 50).Draw(t, "records") {
			if i > 0 && rapid.Bool().Draw(t, "lease") {
				l := leases.Draw(t, "lease")
				must(t, e.Lease(l))
				want = append(want, delta.Record{Lease: l})
				continue
			}
			if i > 0 {
				if rapid.Bool().Draw(t, "same revision") {
					sub++
				} else {
					revision, sub = revision+1, 0
				}
			}
			ev := drawEvent(t, revision)
			must(t, e.Event(ev))
			kv, err := proto.Marshal(ev.Kv)
			must(t, err)
			want = append(want, delta.Record{
				Revision: revision, Sub: sub, Tombstone: ev.Type == mvccpb.Event_DELETE, Key: ev.Kv.Key, KeyValue: kv,
			})
		}
		said, err := e.Close()
		must(t, err)
		got, read, err := decode(iotest.OneByteReader(&b))
		must(t, err)
		if read != said || read.First != first || read.Last != revision {
			t.Fatalf("written %+v, read %+v, want revisions %d to %d", said, read, first, revision)
		}
		if !slices.EqualFunc(got, want, sameRecord) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sameRecord(a, b delta.Record) bool {
	return a.Lease == b.Lease && a.Revision == b.Revision && a.Sub == b.Sub && a.Tombstone == b.Tombstone &&
		bytes.Equal(a.Key, b.Key) && bytes.Equal(a.KeyValue, b.KeyValue)
}

// Records larger than a chunk, and ones that lie across two of them.
func TestLargeRecords(t *testing.T) {
	var items []any
	var values [][]byte
	for i, size := range []int{1<<20 - 30, 100, 3 << 20, 1, 700_000, 700_000, 10 << 20, 5} {
		value := bytes.Repeat([]byte{byte('a' + i)}, size)
		values = append(values, value)
		items = append(items, put("key", string(value), int64(7+i)))
	}
	data := encode(t, 7, items...)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)),
		"end with data": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		records, _, err := decode(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// All are looked at after all were read: slices stay valid.
		for i, r := range records {
			kv := &mvccpb.KeyValue{}
			if err := proto.Unmarshal(r.KeyValue, kv); err != nil || !bytes.Equal(kv.Value, values[i]) {
				t.Errorf("%s: value %d of %d bytes was changed (%v)", name, i, len(values[i]), err)
			}
		}
	}
}

func TestEncoderRefuses(t *testing.T) {
	const first = 10
	for _, c := range []struct {
		name string
		item any
		gap  bool
	}{
		{"an earlier revision", put("k", "", 10), true},
		{"a missing revision", put("k", "", 13), true},
		{"no revision", put("k", "", 0), true},
		{"no key", put("", "", 12), false},
		{"no event", &mvccpb.Event{}, false},
		{"an unknown type", &mvccpb.Event{Type: 2, Kv: put("k", "", 12).Kv}, false},
		{"no lease", delta.Lease{TTL: 5}, false},
		{"a negative TTL", delta.Lease{ID: 5, TTL: -1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			e := delta.NewEncoder(&b, first)
			good := []*mvccpb.Event{put("a", "", 10), put("b", "", 11)}
			after := put("c", "", 12)
			for _, ev := range good {
				if err := e.Event(ev); err != nil {
					t.Fatal(err)
				}
			}
			err := add(e, c.item)
			if err == nil || errors.Is(err, delta.ErrGap) != c.gap {
				t.Fatalf("got %v", err)
			}
			// It goes on as if that had not been said.
			if err := e.Event(after); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if want := encode(t, first, good[0], good[1], after); !bytes.Equal(b.Bytes(), want) {
				t.Errorf("got %x, want %x", b.Bytes(), want)
			}
		})
	}
}

func add(e *delta.Encoder, item any) error {
	if ev, ok := item.(*mvccpb.Event); ok {
		return e.Event(ev)
	}
	return e.Lease(item.(delta.Lease))
}

func TestEncoderRefusesAnotherFirstRevision(t *testing.T) {
	for _, revision := range []int64{9, 11} {
		if err := delta.NewEncoder(io.Discard, 10).Event(put("k", "", revision)); !errors.Is(err, delta.ErrGap) {
			t.Errorf("first event of revision %d: %v", revision, err)
		}
	}
}

func TestEmptyDeltaIsRefused(t *testing.T) {
	var b bytes.Buffer
	e := delta.NewEncoder(&b, 10)
	if err := e.Lease(delta.Lease{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Close(); err == nil {
		t.Error("a delta without an event was closed")
	}
	if b.Len() > 0 {
		t.Errorf("%d bytes were written", b.Len())
	}
}

func TestClosedEncoderRefuses(t *testing.T) {
	var b bytes.Buffer
	e := delta.NewEncoder(&b, 10)
	if err := e.Event(put("k", "", 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Close(); err != nil {
		t.Fatal(err)
	}
	size := b.Len()
	_, closeErr := e.Close()
	for _, err := range []error{e.Event(put("k", "", 11)), e.Lease(delta.Lease{ID: 1}), closeErr} {
		if err == nil {
			t.Error("it went on after Close")
		}
	}
	if b.Len() != size {
		t.Error("it wrote after Close")
	}
}

type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestEncoderKeepsTheErrorOfItsWriter(t *testing.T) {
	e := delta.NewEncoder(&brokenWriter{left: 100_000}, 1)
	var first error
	for revision := int64(1); revision < 1000; revision++ {
		err := e.Event(put("key", "0123456789012345678901234567890123456789012345678901234567890123456789"+
			"0123456789012345678901234567890123456789012345678901234567890123456789", revision))
		first = cmp.Or(first, err)
	}
	_, closeErr := e.Close()
	if !errors.Is(first, errBroken) || !errors.Is(closeErr, errBroken) {
		t.Errorf("events: %v, close: %v", first, closeErr)
	}
}
