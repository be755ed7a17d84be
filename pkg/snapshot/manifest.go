package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// ManifestSuffix is appended to a snapshot's name to name its manifest.
const ManifestSuffix = ".json"

// ManifestVersion is the newest version of the manifest this code writes and
// reads.
const ManifestVersion = 1

// ErrManifest is wrapped by every error of DecodeManifest.
var ErrManifest = errors.New("invalid manifest")

// Manifest describes one stored snapshot. It is written after the snapshot has
// been read back, and makes it count: a snapshot without a manifest does not
// exist for listing, restoring, copying and pruning.
type Manifest struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Kind    Kind   `json:"kind"`
	// First and Last bound the revisions. A delta holds exactly [First, Last].
	// The true revision of a full lies in [First, Last]: First was read before
	// its stream was opened and Last after.
	First int64     `json:"firstRevision"`
	Last  int64     `json:"lastRevision"`
	Time  time.Time `json:"time"`

	Events       int64  `json:"events"` // of a delta; 0 for a full
	StoredSize   int64  `json:"storedSize"`
	StoredSHA256 string `json:"storedSHA256"`
	PlainSize    int64  `json:"plainSize"`
	PlainSHA256  string `json:"plainSHA256"`

	EtcdVersion    string `json:"etcdVersion"`
	StorageVersion string `json:"storageVersion,omitempty"` // etcd 3.6 and later
	ClusterID      string `json:"clusterID"`                // hexadecimal, as etcdctl prints it
	MemberID       string `json:"memberID"`
	// RaftIndex is the member's raft index when the snapshot was begun. It
	// never decreases within a history, so a lower one later means that the
	// data dir was replaced.
	RaftIndex uint64 `json:"raftIndex"`
	// AuthRevision is etcd's revision of users, roles and permissions. Only a
	// full holds them.
	AuthRevision uint64 `json:"authRevision"`
	Epoch        int64  `json:"epoch"`
	Lineage      string `json:"lineage"`          // a UUID, new at every fork of history
	Parent       string `json:"parent,omitempty"` // the snapshot its writer stored before it

	// Merged is how many deltas a full was made from, besides the full before them;
	// 0 for one that etcd has streamed.
	Merged int64 `json:"merged,omitempty"`

	Final       bool    `json:"final,omitempty"` // taken behind the fence of a hand-over
	OperationID string  `json:"operationID,omitempty"`
	HashKV      *HashKV `json:"hashKV,omitempty"`
	Tool        string  `json:"tool"` // the version of etcd-ferry that wrote it
}

// HashKV is etcd's hash of the key space at a revision. Two members agree if
// all three numbers do.
type HashKV struct {
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"`
	Hash            uint32 `json:"hash"`
}

// Snapshot returns what the manifest's name says.
func (m Manifest) Snapshot() (Snapshot, error) { return Parse(m.Name) }

// Encode returns the manifest sealed.
func (m Manifest) Encode() ([]byte, error) {
	m.Version = ManifestVersion
	m.Time = m.Time.UTC()
	data, err := Seal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest of %s: %w", m.Name, err)
	}
	return data, nil
}

// DecodeManifest is the inverse of Encode. It refuses a manifest with a changed
// byte, of another version, or that contradicts its own name. Fields that it does
// not know are ignored.
func DecodeManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := Unseal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

func (m Manifest) check() error {
	if m.Version != ManifestVersion {
		return fmt.Errorf("version %d, this etcd-ferry reads version %d", m.Version, ManifestVersion)
	}
	s, err := m.Snapshot()
	if err != nil {
		return err
	}
	sameRange := s.First == m.First && (s.Last == m.Last || m.Kind == Full && s.Last <= m.Last)
	if s.Kind != m.Kind || !sameRange || !s.Time.Equal(m.Time) {
		return fmt.Errorf("it says %s [%d, %d] of %s, its name %s does not",
			m.Kind, m.First, m.Last, m.Time.Format(timeLayout), m.Name)
	}
	if m.StoredSize <= 0 || m.PlainSize <= 0 || len(m.StoredSHA256) != 2*sha256.Size || len(m.PlainSHA256) != 2*sha256.Size {
		return errors.New("size or digest is missing")
	}
	return nil
}
