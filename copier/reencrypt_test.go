package copier_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/etcd-ferry/etcd-ferry/copier"
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

// sealing returns the archive in s that encrypts for a key and opens with keys.
func sealing(s store.Store, key *age.X25519Identity, keys ...age.Identity) *archive.Archive {
	a := archive.New(s)
	a.Recipients = func() ([]age.Recipient, error) { return []age.Recipient{key.Recipient()}, nil }
	a.Identities = func() ([]age.Identity, error) { return keys, nil }
	return a
}

func content(t *testing.T, a *archive.Archive, m snapshot.Manifest) []byte {
	t.Helper()
	r, err := a.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEncryptedIsCopiedAsItIsWithoutAKey(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, sealing(from, newKey(t)), everyday...)
	copyAll(t, newCopier(from, to))
	same(t, from, to)
}

func TestReencrypt(t *testing.T) {
	before, after := newKey(t), newKey(t)
	for name, source := range map[string]func(store.Store) *archive.Archive{
		"from plain":       archive.New,
		"from another key": func(s store.Store) *archive.Archive { return sealing(s, before, before) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := mem.New(), newHooked()
			ms := fill(t, source(from), everyday...)
			reencrypt := func() *copier.Copier {
				c := copier.New(source(from), sealing(to, after, before))
				c.Log, c.Reencrypt = newCopier(from, to).Log, true
				return c
			}
			if r := copyAll(t, reencrypt()); r.Copied != len(ms) {
				t.Errorf("got %+v", r)
			}
			listed(t, to)
			l, err := sealing(to, after, after).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range l.Manifests {
				was := ms[i]
				if m.PlainSHA256 != was.PlainSHA256 || m.StoredSHA256 == was.StoredSHA256 || strings.TrimSuffix(was.Name, ".age")+".age" != m.Name {
					t.Errorf("%+v became %+v", was, m)
				}
				if was.Parent != "" && m.Parent != strings.TrimSuffix(was.Parent, ".age")+".age" {
					t.Errorf("the parent of %s is %s", m.Name, m.Parent)
				}
				if !bytes.Equal(content(t, sealing(to, after, after), m), content(t, source(from), was)) {
					t.Errorf("%s has other content", m.Name)
				}
			}
			if r := copyAll(t, reencrypt()); r.There != len(ms) {
				t.Errorf("again: %+v", r)
			}
		})
	}
}

func TestReencryptionThatWasCutOff(t *testing.T) {
	before, after := newKey(t), newKey(t)
	from, to := mem.New(), newHooked()
	fill(t, sealing(from, before, before), everyday...)
	cut := errors.New("cut off")
	to.before = func(name string) error {
		if isManifest(name) {
			return cut
		}
		return nil
	}
	reencrypt := func(with ...age.Identity) (copier.Result, error) {
		c := copier.New(sealing(from, before, before), sealing(to, after, with...))
		c.Log, c.Reencrypt = newCopier(from, to).Log, true
		return c.Do(t.Context(), plan(t, c))
	}
	if _, err := reencrypt(before); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	to.before = nil
	if _, err := reencrypt(before); !errors.Is(err, copier.ErrTaken) || !strings.Contains(err.Error(), "--identities-file") {
		t.Errorf("what cannot be recognised: %v", err)
	}
	r, err := reencrypt(before, after)
	if err != nil || r.Adopted == 0 || r.Adopted+r.Copied != len(everyday) {
		t.Errorf("got %+v, %v", r, err)
	}
	listed(t, to)
}

func TestReencryptWithoutTheKey(t *testing.T) {
	from, to := mem.New(), mem.New()
	fill(t, sealing(from, newKey(t)), everyday...)
	c := copier.New(archive.New(from), sealing(to, newKey(t)))
	c.Log, c.Reencrypt = newCopier(from, to).Log, true
	if _, err := c.Do(t.Context(), plan(t, c)); !errors.Is(err, archive.ErrIdentity) {
		t.Errorf("got %v", err)
	}
	for name := range objects(t, to) {
		if !isAnnouncement(name) {
			t.Errorf("%s was stored", name)
		}
	}
}

func TestReencryptOfADamagedSource(t *testing.T) {
	key := newKey(t)
	from, to := mem.New(), mem.New()
	ms := fill(t, sealing(from, key), everyday...)
	name := "snapshots/" + ms[1].Name
	object := objects(t, from)[name]
	object[len(object)-1] ^= 1
	put(t, from, name, object)
	c := copier.New(sealing(from, key, key), sealing(to, key))
	c.Log, c.Reencrypt = newCopier(from, to).Log, true
	_, err := c.Do(t.Context(), plan(t, c))
	if !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), ms[1].Name) {
		t.Errorf("got %v", err)
	}
	if got, want := listed(t, to), "full 100, full 130, delta 131-140, delta 141-150"; got != want {
		t.Errorf("copied are %s, want %s", got, want)
	}
}
