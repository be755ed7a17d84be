package main

import (
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

// recipientFlags say for whom snapshots are encrypted.
type recipientFlags struct{ file string }

func (r *recipientFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&r.file, "recipients-file", "",
		"encrypt for the public keys of age in this `file`, one to a line, read again for each snapshot; default: no encryption")
}

// apply has a encrypt what it stores. It reads the file once, so that one that
// is missing or wrong is found at once and not with the first snapshot.
func (r *recipientFlags) apply(a *archive.Archive) error {
	if r.file == "" {
		return nil
	}
	a.Recipients = archive.RecipientsFile(r.file)
	_, err := a.Recipients()
	return err
}

// identityFlags say what encrypted snapshots are opened with.
type identityFlags struct{ file string }

func (i *identityFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&i.file, "identities-file", "",
		"`file` with the secret keys of age, as age-keygen writes it, that open encrypted snapshots")
}

// apply has a open encrypted snapshots. It reads the file once.
func (i *identityFlags) apply(a *archive.Archive) error {
	if i.file == "" {
		return nil
	}
	a.Identities = archive.IdentitiesFile(i.file)
	_, err := a.Identities()
	return err
}
