package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// ErrTrailer says that a snapshot stream does not end with the sha256 of what
// came before.
var ErrTrailer = errors.New("the snapshot's own sha256 does not match its content")

// Snapshot is a stream of etcd's database file followed by its sha256, as
// Maintenance.Snapshot sends it (server/etcdserver/api/v3rpc/maintenance.go).
// Reading says io.EOF only if the sha256 is right.
type Snapshot struct {
	// StorageVersion of the content, empty before etcd 3.6.
	StorageVersion string
	// Progress, if set, is told how many bytes have been read.
	Progress func(done int64)
	*trailerReader
}

// Read implements io.Reader.
func (s *Snapshot) Read(p []byte) (int, error) {
	n, err := s.trailerReader.Read(p)
	if s.Progress != nil {
		s.Progress(s.size)
	}
	return n, err
}

// Snapshot opens the snapshot stream of the member in use. While it is open
// etcd keeps the pages it refers to, so a slow reader makes a busy database
// grow.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	pieces := &pieceReader{cancel: cancel}
	pieces.stream, err = etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Snapshot(ctx, &etcdserverpb.SnapshotRequest{}, anySize,
		grpc.ForceCodecV2(snapshotCodec()))
	if err == nil {
		err = pieces.next() // once the first piece has arrived, the content is fixed
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("etcd at %s: snapshot: %w", c.Endpoint(), explain(rpctypes.Error(err)))
	}
	return &Snapshot{StorageVersion: pieces.version, trailerReader: newTrailerReader(pieces)}, nil
}

// codec is gRPC's for protocol buffers, with other buffers: the pieces of a
// snapshot are a little longer than 32 KiB, for which gRPC's own takes one of
// 1 MiB, and clears all of that for every piece.
type codec struct {
	encoding.CodecV2
	buffers mem.BufferPool
}

func snapshotCodec() codec {
	return codec{encoding.GetCodecV2(proto.Name), mem.NewTieredBufferPool(64<<10, 1<<20)}
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	message := data.MaterializeToBuffer(c.buffers)
	defer message.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{message}, v)
}

// pieceReader reads a snapshot stream, without the goroutine and the pipe of
// clientv3's.
type pieceReader struct {
	stream  etcdserverpb.Maintenance_SnapshotClient
	cancel  context.CancelFunc
	piece   []byte
	version string // of the storage
}

func (p *pieceReader) next() error {
	r, err := p.stream.Recv()
	if err != nil {
		return err
	}
	p.piece, p.version = r.GetBlob(), r.GetVersion()
	return nil
}

func (p *pieceReader) Read(b []byte) (int, error) {
	for len(p.piece) == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.piece)
	p.piece = p.piece[n:]
	return n, nil
}

func (p *pieceReader) Close() error {
	p.cancel()
	return nil
}

// trailerReader passes everything on and checks that the last 32 bytes are the
// sha256 of the others.
type trailerReader struct {
	from io.ReadCloser
	hash hash.Hash
	tail []byte // the newest 32 bytes, not hashed yet
	size int64

	finished bool
}

func newTrailerReader(r io.ReadCloser) *trailerReader {
	return &trailerReader{from: r, hash: sha256.New()}
}

func (t *trailerReader) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.size += int64(n)
	t.add(p[:n])
	if err == io.EOF {
		err = t.finish()
	}
	return n, err
}

// finish returns io.EOF if the trailer is right.
func (t *trailerReader) finish() error {
	if t.finished {
		return io.EOF
	}
	if !bytes.Equal(t.hash.Sum(nil), t.tail) {
		return ErrTrailer
	}
	t.finished = true
	t.hash.Write(t.tail) // from now on the hash is that of everything
	return io.EOF
}

func (t *trailerReader) add(p []byte) {
	if len(p) >= sha256.Size {
		t.hash.Write(t.tail)
		t.hash.Write(p[:len(p)-sha256.Size])
		t.tail = append(t.tail[:0], p[len(p)-sha256.Size:]...)
		return
	}
	t.tail = append(t.tail, p...)
	if over := len(t.tail) - sha256.Size; over > 0 {
		t.hash.Write(t.tail[:over])
		t.tail = append(t.tail[:0], t.tail[over:]...)
	}
}

// SHA256 returns the digest, hexadecimal, of all that was read, the trailer
// included. It is valid once Read has said io.EOF.
func (t *trailerReader) SHA256() string { return hex.EncodeToString(t.hash.Sum(nil)) }

func (t *trailerReader) Close() error { return t.from.Close() }
