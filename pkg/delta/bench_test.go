package delta_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
)

const benchEvents = 50_000

func benchData(b *testing.B) []byte {
	ev := put("/registry/pods/default/some-pod-0123456789", string(bytes.Repeat([]byte{'v'}, 970)), 1)
	var out bytes.Buffer
	e := delta.NewEncoder(&out, 1)
	for revision := range int64(benchEvents) {
		ev.Kv.ModRevision = revision + 1
		if err := e.Event(ev); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := e.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkDecode includes the sha256 of all bytes; BenchmarkSHA256 of package
// crypto/sha256 tells its share.
func BenchmarkDecode(b *testing.B) {
	data := benchData(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		d := delta.NewDecoder(bytes.NewReader(data))
		for {
			if _, err := d.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(benchEvents*b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkEncode(b *testing.B) {
	ev := put("/registry/pods/default/some-pod-0123456789", string(bytes.Repeat([]byte{'v'}, 970)), 1)
	e := delta.NewEncoder(io.Discard, 1)
	b.ReportAllocs()
	b.SetBytes(1024)
	revision := int64(0)
	for b.Loop() {
		revision++
		ev.Kv.ModRevision = revision
		if err := e.Event(ev); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
