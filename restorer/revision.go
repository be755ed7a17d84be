package restorer

import (
	"encoding/binary"
	"fmt"
)

// revision is a place in etcd's history: the revision proper, and the position
// of a change within it.
type revision struct{ main, sub int64 }

// follows reports whether r may come next after before.
func (r revision) follows(before revision) bool {
	if r.main == before.main {
		return r.sub == before.sub+1
	}
	return r.main == before.main+1 && r.sub == 0
}

func (r revision) String() string { return fmt.Sprintf("%d.%d", r.main, r.sub) }

const (
	revisionSize    = 8 + 1 + 8
	revisionKeySize = revisionSize + 1
	tombstoneMark   = 't'
)

// appendKey appends the key of a change in etcd's key bucket (mvcc,
// BucketKeyToBytes).
func (r revision) appendKey(b []byte, tombstone bool) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.main))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(r.sub))
	if tombstone {
		b = append(b, tombstoneMark)
	}
	return b
}

// parseRevision is the inverse of appendKey.
func parseRevision(key []byte) (r revision, tombstone bool, err error) {
	tombstone = len(key) == revisionKeySize && key[revisionSize] == tombstoneMark
	if len(key) != revisionSize && !tombstone || key[8] != '_' {
		return r, false, fmt.Errorf("%x is no key of a revision", key)
	}
	r = revision{int64(binary.BigEndian.Uint64(key)), int64(binary.BigEndian.Uint64(key[9:]))}
	if r.main < 0 || r.sub < 0 {
		return r, false, fmt.Errorf("%x is the key of a negative revision", key)
	}
	return r, tombstone, nil
}
