package archive

import (
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// ErrIdentity is wrapped when an encrypted snapshot is intact and there is no
// identity to open it with.
var ErrIdentity = errors.New("cannot be decrypted")

// RecipientsFile returns a source for Archive.Recipients: a file of age's, with
// one public key to a line. It is read anew each time, so that a file that is
// replaced is for the next snapshot.
func RecipientsFile(path string) func() ([]age.Recipient, error) {
	return func() ([]age.Recipient, error) { return keys(path, "recipients", age.ParseRecipients) }
}

// IdentitiesFile returns a source for Archive.Identities: a file of age's, with
// one secret key to a line, as age-keygen writes it. It is read anew each time.
// Keys that were replaced stay in it for as long as there are snapshots that
// were encrypted for them.
func IdentitiesFile(path string) func() ([]age.Identity, error) {
	return func() ([]age.Identity, error) { return keys(path, "identities", age.ParseIdentities) }
}

func keys[T any](path, what string, parse func(io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the %s file: %w", what, err)
	}
	defer f.Close()
	all, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s file %s, want one key of age to a line: %w", what, path, err)
	}
	return all, nil
}

// recipients returns whom the next snapshot is for; none means everybody.
func (a *Archive) recipients() ([]age.Recipient, error) {
	if a.Recipients == nil {
		return nil, nil
	}
	to, err := a.Recipients()
	if err == nil && len(to) == 0 {
		err = errors.New("no recipients to encrypt for")
	}
	return to, err
}

// identities returns what the snapshot name is opened with.
func (a *Archive) identities(name string) ([]age.Identity, error) {
	if a.Identities == nil {
		return nil, fmt.Errorf("%s %w: it is encrypted, name the file with the secret keys with --identities-file", name, ErrIdentity)
	}
	with, err := a.Identities()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return with, nil
}
