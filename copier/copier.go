package copier

import (
	"errors"
	"log/slog"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

// DefaultParallel is how many objects are copied at a time.
const DefaultParallel = 4

// ahead is how many objects may be copied before the manifest of the oldest.
const ahead = 32

var (
	// ErrTaken is wrapped when something else is where a copy belongs. It stays
	// untouched.
	ErrTaken = errors.New("the name is taken")
	// ErrGone is wrapped when a snapshot was removed from the source after it
	// was planned to copy it.
	ErrGone = errors.New("removed from the source meanwhile")
)

// Copier copies snapshots from one archive to another. Set its fields before the
// first call.
type Copier struct {
	Selection Selection
	// Reencrypt opens every snapshot with the identities of the source and packs
	// it for the recipients of the destination. What is there already stays as it
	// is, for whomever it was encrypted; identities of the destination are needed
	// only to recognise what a copy that was cut off left without a manifest.
	Reencrypt bool
	Parallel  int // objects at a time
	// Bandwidth bounds the bytes per second that are read from both stores
	// together; 0: unlimited. A copy is read twice, once from each. With Reencrypt
	// reading back is not counted, and nothing is of what stores copy themselves.
	Bandwidth int64
	// Progress, if set, is told how many bytes are copied, and of how many. An
	// object that was sent is half copied before it is read back. One that has to
	// be sent again takes it back.
	Progress func(done, total int64)
	Log      *slog.Logger

	from, to *archive.Archive
}

// New returns a Copier of everything with the default settings.
func New(from, to *archive.Archive) *Copier {
	return &Copier{Parallel: DefaultParallel, Log: slog.Default(), from: from, to: to}
}
