package archive

import (
	"errors"
	"sync"

	"filippo.io/age"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// ErrCorrupt is wrapped by every error that says a stored object is not what
// it should be. A store that cannot be reached is another error.
var ErrCorrupt = errors.New("corrupt")

const folder = "snapshots/"

// Archive keeps the snapshots of one container. It is safe for concurrent use;
// set its fields before the first call.
type Archive struct {
	// Recipients, if set, says for whom a snapshot that is about to be stored is
	// encrypted. It is asked for each one, see RecipientsFile.
	Recipients func() ([]age.Recipient, error)
	// Identities, if set, gives what encrypted snapshots are opened with. It is
	// asked for each one, see IdentitiesFile.
	Identities func() ([]age.Identity, error)

	store store.Store

	mu    sync.Mutex
	known map[string]known // by manifest name
}

// known is a manifest as it was read at a version of its object.
type known struct {
	version  store.Version
	manifest snapshot.Manifest
}

// New returns the archive in the container s.
func New(s store.Store) *Archive {
	return &Archive{store: s, known: map[string]known{}}
}

// String names the container for people.
func (a *Archive) String() string { return a.store.String() }

func objectName(name string) string { return folder + name }

func manifestName(name string) string { return folder + name + snapshot.ManifestSuffix }
