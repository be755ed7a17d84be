package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

var update = flag.Bool("update", false, "write testdata anew")

func sample() snapshot.Manifest {
	return named(snapshot.Manifest{
		Version: snapshot.ManifestVersion, Kind: snapshot.Full, First: 100, Last: 103,
		Time: time.Date(2026, 11, 20, 23, 16, 0, 0, time.UTC), StoredSize: 20_480, StoredSHA256: strings.Repeat("a1", 32),
		PlainSize: 4_194_336, PlainSHA256: strings.Repeat("b2", 32), EtcdVersion: "3.6.16", StorageVersion: "3.6.0",
		ClusterID: "cdf818194e3a8c32", MemberID: "8e9e05c52164694d", RaftIndex: 140, AuthRevision: 1, Epoch: 4,
		Lineage: "0e7a2c0e-9b1f-4d39-9c0b-2f6a5d1c7e88", Parent: "full-0000000000000090-20261120T221600Z.db.zst",
		Final: true, OperationID: "5f0c9f0e-7a43-4d8b-8f7e-0d3d5b8f2a11",
		HashKV: &snapshot.HashKV{Revision: 103, CompactRevision: 50, Hash: 2_596_996_162}, Tool: "v1.0.0",
	})
}

func encode(t testing.TB, m snapshot.Manifest) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sign returns lines of JSON with the digest that they need, as a manifest.
func sign(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return fmt.Appendf(nil, "%s  \"sha256\": \"%s\"\n}\n", body, hex.EncodeToString(sum[:]))
}

// body returns a manifest without its digest.
func body(data []byte) string { return string(data[:bytes.LastIndex(data, []byte(`  "sha256"`))]) }

// The format is a promise: what is stored today must be readable in years.
func TestManifestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "manifest.json")
	data := encode(t, sample())
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
		t.Errorf("encoded\n%s\nthe golden file is\n%s", data, want)
	}
	if m, err := snapshot.DecodeManifest(want); err != nil || !reflect.DeepEqual(m, sample()) {
		t.Errorf("decoded %+v, %v", m, err)
	}
	// What docs/format.md says: head -n -2 manifest.json | sha256sum
	lines := bytes.SplitAfter(want, []byte("\n"))
	sum := sha256.Sum256(bytes.Join(lines[:len(lines)-3], nil)) // the last is empty
	if !bytes.Contains(lines[len(lines)-3], []byte(hex.EncodeToString(sum[:]))) {
		t.Error("the digest is not the one of the lines before it")
	}
}

var manifests = rapid.Custom(func(t *rapid.T) snapshot.Manifest {
	digest := rapid.StringMatching("[0-9a-f]{64}")
	text := rapid.OneOf(rapid.String(), rapid.Just(`  "sha256": "`), rapid.Just("<&>\u2028"))
	m := snapshot.Manifest{
		Version: snapshot.ManifestVersion,
		Kind:    rapid.SampledFrom([]snapshot.Kind{snapshot.Full, snapshot.Delta}).Draw(t, "kind"),
		First:   rapid.Int64Min(1).Draw(t, "first"),
		Time:    time.Unix(rapid.Int64Range(0, 250_000_000_000).Draw(t, "time"), 0).UTC(),
		Events:  rapid.Int64().Draw(t, "events"), StoredSize: rapid.Int64Min(1).Draw(t, "stored"),
		StoredSHA256: digest.Draw(t, "stored digest"), PlainSize: rapid.Int64Min(1).Draw(t, "plain"),
		PlainSHA256: digest.Draw(t, "plain digest"), EtcdVersion: text.Draw(t, "etcd"), StorageVersion: text.Draw(t, "storage"),
		ClusterID: text.Draw(t, "cluster"), MemberID: text.Draw(t, "member"), RaftIndex: rapid.Uint64().Draw(t, "raft"),
		AuthRevision: rapid.Uint64().Draw(t, "auth"), Epoch: rapid.Int64().Draw(t, "epoch"), Lineage: text.Draw(t, "lineage"),
		Parent: text.Draw(t, "parent"), Final: rapid.Bool().Draw(t, "final"), OperationID: text.Draw(t, "operation"),
		Tool: text.Draw(t, "tool"),
	}
	m.Last = rapid.Int64Min(m.First).Draw(t, "last")
	if rapid.Bool().Draw(t, "hashed") {
		m.HashKV = &snapshot.HashKV{
			Revision: rapid.Int64().Draw(t, "revision"), CompactRevision: rapid.Int64().Draw(t, "compact"), Hash: rapid.Uint32().Draw(t, "hash"),
		}
	}
	return named(m)
})

func TestEncodeAndDecodeAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := manifests.Draw(t, "manifest")
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := snapshot.DecodeManifest(data)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%s\n%+v, %v, want\n%+v", data, got, err, m)
		}
	})
}

func TestEveryChangeOfAManifestIsFound(t *testing.T) {
	data := encode(t, sample())
	for i := range data {
		for _, flip := range []byte{0x01, 0x20, 0xff} {
			broken := bytes.Clone(data)
			broken[i] ^= flip
			if _, err := snapshot.DecodeManifest(broken); !errors.Is(err, snapshot.ErrManifest) {
				t.Errorf("byte %d changed by %#x: %v", i, flip, err)
			}
		}
		if _, err := snapshot.DecodeManifest(data[:i]); !errors.Is(err, snapshot.ErrManifest) {
			t.Errorf("cut after %d bytes: %v", i, err)
		}
	}
	if _, err := snapshot.DecodeManifest(append(data, '\n')); !errors.Is(err, snapshot.ErrManifest) {
		t.Errorf("with a newline more: %v", err)
	}
}

func TestManifestsThatContradictThemselves(t *testing.T) {
	for what, change := range map[string]func(m *snapshot.Manifest){
		"name is none":      func(m *snapshot.Manifest) { m.Name = "full" },
		"name of a path":    func(m *snapshot.Manifest) { m.Name = "../" + m.Name },
		"other kind":        func(m *snapshot.Manifest) { m.Kind = snapshot.Delta },
		"other first":       func(m *snapshot.Manifest) { m.First++ },
		"ends early":        func(m *snapshot.Manifest) { m.Last = m.First - 1 },
		"other time":        func(m *snapshot.Manifest) { m.Time = m.Time.Add(time.Second) },
		"fractions of time": func(m *snapshot.Manifest) { m.Time = m.Time.Add(time.Millisecond) },
		"no stored size":    func(m *snapshot.Manifest) { m.StoredSize = 0 },
		"no plain size":     func(m *snapshot.Manifest) { m.PlainSize = 0 },
		"no stored digest":  func(m *snapshot.Manifest) { m.StoredSHA256 = "" },
		"no plain digest":   func(m *snapshot.Manifest) { m.PlainSHA256 = "" },
	} {
		m := sample()
		change(&m)
		if _, err := snapshot.DecodeManifest(encode(t, m)); !errors.Is(err, snapshot.ErrManifest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	delta := named(snapshot.Manifest{Kind: snapshot.Delta, First: 5, Last: 9, Time: dawn})
	delta.StoredSize, delta.PlainSize, delta.StoredSHA256, delta.PlainSHA256 = 1, 1, strings.Repeat("a", 64), strings.Repeat("b", 64)
	if _, err := snapshot.DecodeManifest(encode(t, delta)); err != nil {
		t.Error(err)
	}
	delta.Last++ // only a full may know more than its name
	if _, err := snapshot.DecodeManifest(encode(t, delta)); !errors.Is(err, snapshot.ErrManifest) {
		t.Errorf("a delta that ends later than its name says: %v", err)
	}
}

func TestNewerManifest(t *testing.T) {
	lines := body(encode(t, sample()))
	newer := strings.Replace(lines, `"version": 1`, `"version": 2`, 1)
	if _, err := snapshot.DecodeManifest(sign(newer)); !errors.Is(err, snapshot.ErrManifest) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v", err)
	}
	// Fields that the same version gains later are ignored.
	more := strings.Replace(lines, `"version": 1,`, `"version": 1, "colour": {"sha256": "green"},`, 1)
	if m, err := snapshot.DecodeManifest(sign(more)); err != nil || !reflect.DeepEqual(m, sample()) {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := snapshot.DecodeManifest(sign(strings.TrimSuffix(lines, ",\n"))); !errors.Is(err, snapshot.ErrManifest) {
		t.Errorf("no JSON: %v", err)
	}
}

// FuzzDecodeManifest reads arbitrary bytes, as they are and signed, so that all
// of the decoder is reached.
func FuzzDecodeManifest(f *testing.F) {
	f.Add(string(encode(f, sample())))
	f.Add(body(encode(f, sample())))
	f.Add("{")
	f.Fuzz(func(t *testing.T, data string) {
		for _, data := range [][]byte{[]byte(data), sign(data)} {
			m, err := snapshot.DecodeManifest(data)
			if err != nil {
				if !errors.Is(err, snapshot.ErrManifest) {
					t.Fatalf("not classified: %v", err)
				}
				continue
			}
			again, err := snapshot.DecodeManifest(encode(t, m))
			again.Time = m.Time // equal, as the name says, but perhaps of another zone
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v\nthen %+v, %v", m, again, err)
			}
		}
	})
}
