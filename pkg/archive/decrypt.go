package archive

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// decrypted returns what is encrypted in stored, or stored itself if m says
// that nothing is. Closing it closes stored.
func (a *Archive) decrypted(m snapshot.Manifest, stored *remembering) (io.ReadCloser, error) {
	s, err := m.Snapshot()
	if err != nil || !s.Encrypted {
		return stored, err
	}
	with, err := a.identities(m.Name)
	if err != nil {
		return nil, err
	}
	content, err := age.Decrypt(stored, with...)
	if err != nil {
		return nil, refused(m.Name, err, stored)
	}
	return &unage{content, stored, m.Name}, nil
}

// refused explains why age could not even begin. A changed byte in a header
// looks like another's key, so a key is blamed only after the stored bytes have
// been found right.
func refused(name string, err error, stored *remembering) error {
	if failed := stored.failure(); failed != nil {
		return failed
	}
	if other := new(age.NoIdentityMatchError); !errors.As(err, &other) {
		return corrupt(name, "age: %w", err)
	}
	if _, err := store.Drain(stored); err != nil {
		return err
	}
	return fmt.Errorf("%s %w: it was encrypted for other keys than those in --identities-file", name, ErrIdentity)
}

// unage decrypts, and tells age's complaints from the errors of what it reads.
type unage struct {
	content io.Reader
	stored  *remembering
	name    string
}

func (u *unage) Read(p []byte) (int, error) {
	n, err := u.content.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if failed := u.stored.failure(); failed != nil {
		return n, failed
	}
	return n, corrupt(u.name, "age: %w", err)
}

func (u *unage) Close() error { return u.stored.Close() }
