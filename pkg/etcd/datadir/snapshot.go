package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"go.etcd.io/bbolt"
)

// trailerSize is what etcd appends to a database that it streams.
const trailerSize = sha256.Size

// Info says what a database holds.
type Info struct {
	Revision        int64
	CompactRevision int64 // -1 if there has been no compaction
	AuthRevision    uint64
	ClusterID       uint64
	MemberID        uint64
	RaftIndex       uint64 // the last entry that has been applied
	RaftTerm        uint64
	StorageVersion  string // since etcd 3.6
	// ClusterVersion is the oldest version of etcd in the cluster, as in
	// "3.5.0"; empty if etcd ended before it had noted one.
	ClusterVersion string
	Size           int64 // bytes of the snapshot stream, trailer included
}

// Snapshot is the content of a data dir, byte for byte as Maintenance.Snapshot
// streams it: the database and its sha256. It is read once, and closed when no
// other method is running.
type Snapshot struct {
	Info
	// Replayed counts the entries of the WAL that the database lacked.
	Replayed int
	// Progress, if set, is told how many bytes have been read.
	Progress func(done int64)

	db     *database
	stream *io.PipeReader
	poured chan struct{} // closed when nothing more goes into the stream
	digest hash.Hash     // of what went in
	read   int64
}

// Stream returns the content of the database at path, which nobody else has open. Of
// which cluster and member it is, it does not say. ErrBroken is wrapped.
func Stream(ctx context.Context, path string) (*Snapshot, error) {
	db, err := openSound(path)
	if err != nil {
		return nil, err
	}
	return newSnapshot(ctx, db, &log{}), nil
}

func newSnapshot(ctx context.Context, db *database, l *log) *Snapshot {
	db.ClusterID, db.MemberID = l.clusterID, l.memberID
	s := &Snapshot{Info: db.Info, Replayed: len(l.missing), db: db, poured: make(chan struct{}), digest: sha256.New()}
	stream, in := io.Pipe()
	s.stream = stream
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer close(s.poured)
		defer stop()
		in.CloseWithError(db.view(func(tx *bbolt.Tx) error { return pour(in, s.digest, tx) }))
	}()
	return s
}

// pour writes the database and its sha256, and hashes both.
func pour(to io.Writer, digest hash.Hash, tx *bbolt.Tx) error {
	both := io.MultiWriter(to, digest)
	if _, err := tx.WriteTo(both); err != nil {
		return err
	}
	_, err := both.Write(digest.Sum(nil))
	return err
}

// Read implements io.Reader.
func (s *Snapshot) Read(p []byte) (int, error) {
	n, err := s.stream.Read(p)
	s.read += int64(n)
	if s.Progress != nil {
		s.Progress(s.read)
	}
	return n, err
}

// SHA256 returns the digest, hexadecimal, of all that was read, the trailer
// included. It is valid once Read has said io.EOF.
func (s *Snapshot) SHA256() string { return hex.EncodeToString(s.digest.Sum(nil)) }

// Close ends the reading and removes the copy, if there is one.
func (s *Snapshot) Close() error {
	_ = s.stream.Close()
	<-s.poured
	return s.db.close()
}
