package archive_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// holding returns an archive with one object.
func holding(t *testing.T, name string, content []byte) *archive.Archive {
	t.Helper()
	s := mem.New()
	if _, err := s.Create(t.Context(), name, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return archive.New(s)
}

// FuzzOpen reads arbitrary stored bytes, for which there is a manifest that fits, so
// that all of zstd and age is reached, and that of the plain bytes too. There is no end
// but a clean one or ErrCorrupt, and never more bytes than the manifest says.
func FuzzOpen(f *testing.F) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packer.EncodeAll([]byte("plain"), nil), false)
	f.Add(packer.EncodeAll(bytes.Repeat([]byte("plain"), 1000), nil), false)
	f.Add([]byte("age-encryption.org/v1\n-> X25519 x\ny\n--- z\n"), true)
	const most = 1 << 20 // bytes of the plain content
	f.Fuzz(func(t *testing.T, stored []byte, encrypted bool) {
		if len(stored) == 0 {
			return
		}
		s := snapshot.Snapshot{Kind: snapshot.Full, First: 1, Last: 1, Time: noon, Encrypted: encrypted}
		m := snapshot.Manifest{
			Kind: s.Kind, Name: s.Name(), First: 1, Last: 1, Time: noon,
			StoredSize: int64(len(stored)), StoredSHA256: fmt.Sprintf("%x", sha256.Sum256(stored)),
			PlainSize: most, PlainSHA256: fmt.Sprintf("%x", sha256.Sum256(nil)),
		}
		a := holding(t, "snapshots/"+m.Name, stored)
		a.Identities = func() ([]age.Identity, error) { return []age.Identity{key}, nil }
		content, err := a.Open(t.Context(), m)
		if err == nil {
			defer content.Close()
			var n int64
			n, err = io.Copy(io.Discard, content)
			if n > most {
				t.Errorf("%d bytes were read, the manifest says %d", n, most)
			}
		}
		if !errors.Is(err, archive.ErrCorrupt) && !errors.Is(err, archive.ErrIdentity) { // the digest of the plain bytes never fits
			t.Errorf("not classified: %v", err)
		}
	})
}

// FuzzAdoption reads arbitrary bytes, sealed so that all is reached, as each of the
// objects of an adoption.
func FuzzAdoption(f *testing.F) {
	f.Add(0, "  \"schemaVersion\": 1\n")
	f.Add(1, "  \"schemaVersion\": 1, \"operationID\": \"op\", \"owner\": {\"id\": \"b\", \"epoch\": 1, \"lineage\": \"l\"},\n"+
		"  \"items\": [{\"name\": \"full-0000000000000100-20261120T231600Z.db.zst\", \"kind\": \"full\", \"size\": 1, \"sha256\": \"x\"}]")
	f.Add(2, "  \"schemaVersion\": 1, \"outcome\": \"Committed\"")
	f.Fuzz(func(t *testing.T, which int, body string) {
		leaves := []string{"begun.json", "manifest.json", "outcome.json"}
		text := []byte("{\n" + body + ",\n")
		text = fmt.Appendf(text, "  \"sha256\": \"%x\"\n}\n", sha256.Sum256(text))
		a := holding(t, "adoptions/op/"+leaves[uint(which)%uint(len(leaves))], text)
		all, err := a.Adoptions(t.Context())
		switch {
		case err != nil && !errors.Is(err, archive.ErrCorrupt):
			t.Errorf("not classified: %v", err)
		case err == nil && len(all) > 1:
			t.Errorf("one object is %d adoptions", len(all))
		}
		if _, err := all.Current(); err == nil {
			t.Errorf("one object is an adoption that counts: %s", text)
		}
	})
}

// FuzzAnnouncement: whatever an announcement says, a listing goes on without it, and it
// makes nothing count.
func FuzzAnnouncement(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"from":"s3://bucket/prefix","names":["full-0000000000000100-20261120T231600Z.db.zst"]}`))
	f.Add([]byte(`{"schemaVersion":2}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 64<<10 {
			return
		}
		l, err := holding(t, "snapshots/incoming-x.json", content).List(t.Context())
		if err != nil || len(l.Manifests)+len(l.Strays)+len(l.Problems) > 0 {
			t.Errorf("%+v, %v", l, err)
		}
		_ = l.Unfinished()
	})
}
