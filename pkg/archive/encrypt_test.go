package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sealing returns the archive in s that encrypts for, and opens with, a key.
func sealing(s store.Store, key *age.X25519Identity) *archive.Archive {
	a := archive.New(s)
	a.Recipients = func() ([]age.Recipient, error) { return []age.Recipient{key.Recipient()}, nil }
	a.Identities = func() ([]age.Identity, error) { return []age.Identity{key}, nil }
	return a
}

func TestEncryptedSaveListOpenRemove(t *testing.T) {
	for _, size := range []int{1, 1 << 10, 9 << 20} {
		a := sealing(mem.New(), newKey(t))
		data := content(size)
		m := save(t, a, full(7), data)
		d, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, data))
		if err != nil {
			t.Fatal(err)
		}
		if l := list(t, a); names(l) != m.Name+" "+d.Name || len(l.Problems)+len(l.Strays)+l.Foreign > 0 {
			t.Fatalf("listed %+v", l)
		}
		for _, m := range []snapshot.Manifest{m, d} {
			if !strings.HasSuffix(m.Name, ".age") || m.PlainSize != int64(size) {
				t.Errorf("%+v", m)
			}
			if got, err := read(t.Context(), a, m); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v", m.Name, len(got), err)
			}
			if err := a.Remove(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEncryptedObjectIsAgeOfZstd(t *testing.T) {
	s, key := mem.New(), newKey(t)
	data := content(1 << 20)
	a := sealing(s, key)
	m := save(t, a, full(7), data)
	d, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, data))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []snapshot.Manifest{m, d} {
		object := objects(t, s)["snapshots/"+m.Name]
		zipped, err := age.Decrypt(bytes.NewReader(object), key)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := zstd.NewReader(zipped)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(plain); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", m.Name, len(got), err)
		}
		plain.Close()
	}
}

func TestStoredBytesNeedNoIdentity(t *testing.T) {
	s := mem.New()
	m := save(t, sealing(s, newKey(t)), full(7), content(1<<20))
	r, err := archive.New(s).OpenStored(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, objects(t, s)["snapshots/"+m.Name]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestWithoutTheRightIdentity(t *testing.T) {
	s := mem.New()
	m := save(t, sealing(s, newKey(t)), full(7), content(1000))
	for name, a := range map[string]*archive.Archive{"none": archive.New(s), "another": sealing(s, newKey(t))} {
		_, err := read(t.Context(), a, m)
		if !errors.Is(err, archive.ErrIdentity) || errors.Is(err, archive.ErrCorrupt) ||
			!strings.Contains(err.Error(), "--identities-file") || !strings.Contains(err.Error(), m.Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryFlippedByteOfCiphertextIsFound changes each stored byte in turn, also
// those from which age derives for whom the content is.
func TestEveryFlippedByteOfCiphertextIsFound(t *testing.T) {
	s, key := mem.New(), newKey(t)
	m := save(t, sealing(s, key), full(7), content(600))
	object := "snapshots/" + m.Name
	for i := range objects(t, s)[object] {
		changed := objects(t, s)
		changed[object][i] ^= 1 << (i % 8)
		_, err := read(t.Context(), sealing(container(t, changed), key), m)
		if !errors.Is(err, archive.ErrCorrupt) || errors.Is(err, archive.ErrIdentity) || !strings.Contains(err.Error(), m.Name) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	for n := range objects(t, s)[object] {
		changed := objects(t, s)
		changed[object] = changed[object][:n]
		if l := list(t, sealing(container(t, changed), key)); len(l.Problems) != 1 || !errors.Is(l.Problems[0].Err, archive.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %+v", n, l)
		}
	}
}

func TestSwappedCiphertexts(t *testing.T) {
	s, key := mem.New(), newKey(t)
	a := sealing(s, key)
	one, two := save(t, a, full(7), content(1000)), save(t, a, full(8), content(1000))
	o := objects(t, s)
	x, y := "snapshots/"+one.Name, "snapshots/"+two.Name
	o[x], o[y] = o[y], o[x]
	if _, err := read(t.Context(), sealing(container(t, o), key), one); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("another's ciphertext, for the same key: %v", err)
	}
}

func TestEncryptingAgainSavesTheSameBytes(t *testing.T) {
	s := &answers{Store: mem.New()}
	a := sealing(s, newKey(t))
	b := pack(t, content(1000))
	s.lost = 1
	if _, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), b); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	m, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), b)
	if err != nil {
		t.Fatalf("the object was created, and is not recognised: %v", err)
	}
	if again, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), b); err != nil || again != m {
		t.Errorf("a third time: %v", err)
	}
	if got, err := read(t.Context(), a, m); err != nil || !bytes.Equal(got, content(1000)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, content(1000))); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another buffer: %v", err)
	}
}

var errLost = errors.New("connection lost")

// answers is a store that does what it is asked and loses the first answers.
type answers struct {
	store.Store
	lost int
}

func (a *answers) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	info, err := a.Store.Create(ctx, name, r)
	if a.lost > 0 && err == nil {
		a.lost--
		return store.Info{}, errLost
	}
	return info, err
}

func TestNothingIsStoredWithoutRecipients(t *testing.T) {
	broken := errors.New("no such file")
	for name, recipients := range map[string]func() ([]age.Recipient, error){
		"failing": func() ([]age.Recipient, error) { return nil, broken },
		"empty":   func() ([]age.Recipient, error) { return nil, nil },
	} {
		s := mem.New()
		a := archive.New(s)
		a.Recipients = recipients
		_, err := a.Save(t.Context(), full(7), strings.NewReader("secret"))
		_, bufferErr := a.SaveBuffer(t.Context(), deltaOf(8, 9), pack(t, content(10)))
		if err == nil || bufferErr == nil || len(objects(t, s)) > 0 {
			t.Errorf("%s: %v, %v, stored %d objects", name, err, bufferErr, len(objects(t, s)))
		}
	}
}

func TestKeysAreReplacedWithoutARestart(t *testing.T) {
	before, after := newKey(t), newKey(t)
	dir := t.TempDir()
	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("# a comment\n\n"+strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := archive.New(mem.New())
	a.Recipients = archive.RecipientsFile(write("recipients", before.Recipient().String()))
	a.Identities = archive.IdentitiesFile(write("identities", before.String()))
	old := save(t, a, full(7), content(1000))

	write("recipients", after.Recipient().String())
	write("identities", before.String(), after.String())
	young := save(t, a, full(8), content(1000))
	for _, m := range []snapshot.Manifest{old, young} {
		if _, err := read(t.Context(), a, m); err != nil {
			t.Error(err)
		}
	}
	write("identities", before.String())
	if _, err := read(t.Context(), a, old); err != nil {
		t.Errorf("the old key does not open the old snapshot: %v", err)
	}
	if _, err := read(t.Context(), a, young); !errors.Is(err, archive.ErrIdentity) {
		t.Errorf("the old key on the young snapshot: %v", err)
	}
}

func TestKeyFilesThatAreNone(t *testing.T) {
	key := newKey(t)
	path := filepath.Join(t.TempDir(), "keys")
	for _, text := range []string{"", "# only a comment\n", "SECRET\n", key.String()[:40] + "\n", "ssh-ed25519 AAAA\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := archive.RecipientsFile(path)()
		_, idErr := archive.IdentitiesFile(path)()
		for _, err := range []error{err, idErr} {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %v", text, err)
			} else if strings.Contains(err.Error(), "SECRET\n") || strings.Contains(err.Error(), key.String()[16:40]) {
				t.Errorf("the complaint shows the key: %v", err)
			}
		}
	}
	if _, err := archive.RecipientsFile(path + "-missing")(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestAdoptRecognisesWhatIsInside(t *testing.T) {
	s, key := mem.New(), newKey(t)
	a := sealing(s, key)
	put, err := a.Put(t.Context(), full(7), bytes.NewReader(content(1000)))
	if err != nil {
		t.Fatal(err)
	}
	if l := list(t, a); len(l.Manifests) != 0 || len(l.Strays) != 1 {
		t.Errorf("before its commit: %+v", l)
	}
	asked := put
	asked.StoredSize, asked.StoredSHA256 = 0, ""
	if got, err := a.Adopt(t.Context(), asked); err != nil || got != put {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := sealing(s, newKey(t)).Adopt(t.Context(), asked); !errors.Is(err, archive.ErrIdentity) {
		t.Errorf("without the key: %v", err)
	}
	asked.PlainSHA256 = strings.Repeat("0", 64)
	if _, err := a.Adopt(t.Context(), asked); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("other content: %v", err)
	}
	asked.Name = snapshot.Snapshot{Kind: snapshot.Full, First: 9, Last: 9, Time: noon.Add(time.Hour)}.Name()
	if _, err := a.Adopt(t.Context(), asked); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("nothing there: %v", err)
	}
}

func TestFailingStoreIsNotCorrupt(t *testing.T) {
	s, key := mem.New(), newKey(t)
	m := save(t, sealing(s, key), full(7), content(1<<20))
	size := len(objects(t, s)["snapshots/"+m.Name])
	for _, after := range []int{0, 10, size / 2, size - 1} {
		_, err := read(t.Context(), sealing(cutting{s, after}, key), m)
		if !errors.Is(err, errLost) || errors.Is(err, archive.ErrCorrupt) || errors.Is(err, archive.ErrIdentity) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

// cutting is a store whose content breaks off.
type cutting struct {
	store.Store
	after int
}

func (c cutting) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	r, info, err := c.Store.Open(ctx, name)
	if err != nil {
		return nil, info, err
	}
	cut := io.MultiReader(io.LimitReader(r, int64(c.after)), iotest.ErrReader(errLost))
	return struct {
		io.Reader
		io.Closer
	}{cut, r}, info, nil
}
