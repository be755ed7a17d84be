package snapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

func TestNames(t *testing.T) {
	cut := time.Date(2026, 11, 20, 23, 16, 0, 0, time.UTC)
	for name, want := range map[string]snapshot.Snapshot{
		"full-0000000000000100-20261120T231600Z.db.zst": {
			Kind: snapshot.Full, First: 100, Last: 100, Time: cut,
		},
		"full-0000000000000100-20261120T231600Z.db.zst.age": {
			Kind: snapshot.Full, First: 100, Last: 100, Time: cut, Encrypted: true,
		},
		"delta-0000000000000101-0000000000000120-20261120T231600Z.ev.zst": {
			Kind: snapshot.Delta, First: 101, Last: 120, Time: cut,
		},
		"delta-0000000000000101-9223372036854775807-20261120T231600Z.ev.zst.age": {
			Kind: snapshot.Delta, First: 101, Last: 1<<63 - 1, Time: cut, Encrypted: true,
		},
	} {
		got, err := snapshot.Parse(name)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", name, got, err, want)
		}
		if got := want.Name(); got != name {
			t.Errorf("Name of %+v is %q, want %q", want, got, name)
		}
	}
}

func TestNamesInLocalTime(t *testing.T) {
	s := snapshot.Snapshot{
		Kind: snapshot.Full, First: 1, Last: 1,
		Time: time.Date(2026, 11, 21, 1, 16, 0, 0, time.FixedZone("", 2*3600)),
	}
	if got, want := s.Name(), "full-0000000000000001-20261120T231600Z.db.zst"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNotNames(t *testing.T) {
	const full, delta = "full-0000000000000100-20261120T231600Z.db.zst", "delta-0000000000000101-0000000000000120-20261120T231600Z.ev.zst"
	for _, name := range []string{
		"", "-", ".db.zst", ".age", "full", "full-", "owner.json",
		full + ".json", full + ".age.age", "x" + full, full + "\n", "snapshots/" + full, "../" + full,
		strings.Replace(full, "full", "Full", 1),
		strings.Replace(full, "full", "delta", 1),
		strings.Replace(full, "full", "", 1),
		strings.Replace(full, ".db.", ".ev.", 1),
		strings.TrimSuffix(full, ".zst"),
		strings.Replace(full, "-0", "-00", 1),
		strings.Replace(full, "-0", "-", 1),
		strings.Replace(full, "-0", "-+", 1),
		strings.Replace(full, "100", "000", 1),
		strings.Replace(full, "-0000000000000100", "--000000000000100", 1),
		strings.Replace(full, "-0000000000000100", "-9223372036854775808", 1),
		strings.Replace(full, "-2026", "-0000000000000100-2026", 1),
		strings.Replace(full, "20261120", "20261131", 1),
		strings.Replace(full, "T23", "T24", 1),
		strings.Replace(full, "00Z", "00.5Z", 1),
		strings.Replace(full, "Z", "", 1),
		strings.Replace(delta, "-0000000000000120", "", 1),
		strings.Replace(delta, "120", "100", 1), // it ends before it begins
		strings.Replace(delta, "-20261120T231600Z", "", 1),
		delta[:len("delta-0000000000000101")] + ".ev.zst",
		strings.Repeat("full-", 10_000),
	} {
		if s, err := snapshot.Parse(name); !errors.Is(err, snapshot.ErrName) {
			t.Errorf("Parse(%q) = %+v, %v", name, s, err)
		}
	}
}

func TestNameAndParseAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot.Snapshot{
			Kind:      rapid.SampledFrom([]snapshot.Kind{snapshot.Full, snapshot.Delta}).Draw(t, "kind"),
			First:     rapid.Int64Min(1).Draw(t, "first"),
			Time:      time.Unix(rapid.Int64Range(0, 250_000_000_000).Draw(t, "time"), 0).UTC(), // to the year 9892
			Encrypted: rapid.Bool().Draw(t, "encrypted"),
		}
		s.Last = s.First
		if s.Kind == snapshot.Delta {
			s.Last = rapid.Int64Min(s.First).Draw(t, "last")
		}
		if got, err := snapshot.Parse(s.Name()); err != nil || got != s {
			t.Fatalf("%s: %+v, %v, want %+v", s, got, err, s)
		}
	})
}

// Whatever is accepted is exactly what Name makes of it.
func FuzzParse(f *testing.F) {
	f.Add("full-0000000000000100-20261120T231600Z.db.zst")
	f.Add("delta-0000000000000101-0000000000000120-20261120T231600Z.ev.zst.age")
	f.Add("-0000000000000100-20261120T231600Z")
	f.Fuzz(func(t *testing.T, name string) {
		s, err := snapshot.Parse(name)
		if err != nil {
			if s != (snapshot.Snapshot{}) || !errors.Is(err, snapshot.ErrName) {
				t.Fatalf("%+v, %v", s, err)
			}
			return
		}
		if s.Name() != name || s.First <= 0 || s.Last < s.First || strings.ContainsAny(name, "/\\\x00\n") {
			t.Fatalf("accepted %q as %+v", name, s)
		}
	})
}
