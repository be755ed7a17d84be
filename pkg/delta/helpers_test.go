package delta_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

func put(key, value string, revision int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{
		Key: []byte(key), Value: []byte(value), CreateRevision: revision, ModRevision: revision, Version: 1,
	}}
}

func remove(key string, revision int64) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}}
}

// encode returns a delta of items, which are *mvccpb.Event and delta.Lease.
func encode(t testing.TB, first int64, items ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := delta.NewEncoder(&b, first)
	for _, item := range items {
		var err error
		switch item := item.(type) {
		case *mvccpb.Event:
			err = e.Event(item)
		case delta.Lease:
			err = e.Lease(item)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// decode reads a delta to its end.
func decode(r io.Reader) ([]delta.Record, delta.Summary, error) {
	d := delta.NewDecoder(r)
	var records []delta.Record
	for {
		record, err := d.Next()
		if err == io.EOF {
			return records, d.Summary(), nil
		}
		if err != nil {
			return nil, delta.Summary{}, err
		}
		records = append(records, record)
	}
}

// sealed returns body, which may be any bytes, with the digest it needs.
func sealed(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

// sample has a bit of everything.
func sample(t testing.TB) []byte {
	leased := put("/registry/leases/a", "", 12)
	leased.Kv.Lease = 0x7587890
	return encode(t, 10,
		put("/registry/pods/a", "1", 10), remove("/registry/pods/b", 10),
		put("/registry/pods/a", "2", 11),
		delta.Lease{ID: 0x7587890, TTL: 30}, leased,
		delta.Lease{ID: -1},
	)
}
