package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/readahead"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Open returns the plain bytes of a snapshot: for a full the file that etcd's
// Maintenance.Snapshot streamed, for a delta the format of package delta. The
// reader says io.EOF only if the stored and the plain bytes are those of the
// manifest. An error that wraps ErrCorrupt names the object. Close waits for a read
// from the store that is under way: end ctx first if that may take too long.
func (a *Archive) Open(ctx context.Context, m snapshot.Manifest) (Plain, error) {
	stored, err := a.OpenStored(ctx, m)
	if err != nil {
		return nil, err
	}
	return a.unpack(m, stored)
}

// Plain is the content of a snapshot while it is read. Its SHA256 is, at any time,
// that of what has been read so far.
type Plain interface {
	io.ReadCloser
	Summed
}

// unpack returns what is packed in stored, and closes that with it or if it
// fails.
func (a *Archive) unpack(m snapshot.Manifest, stored io.ReadCloser) (Plain, error) {
	content, err := a.decrypted(m, &remembering{ReadCloser: stored})
	if err != nil {
		return nil, errors.Join(err, stored.Close())
	}
	packed := &remembering{ReadCloser: content}
	// The decoder's own goroutines would pass on pieces so small that it takes longer.
	decoder, err := zstd.NewReader(packed,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, errors.Join(corrupt(m.Name, "zstd: %w", err), packed.Close())
	}
	plain := &verified{
		name: m.Name, what: "decompressed", size: m.PlainSize, sha256: m.PlainSHA256,
		digest: newDigest(), from: (&unzstd{decoder, packed, m.Name}).ahead(m.PlainSize),
	}
	return plain, nil
}

// OpenStored returns a snapshot's bytes as they are stored: compressed, and
// encrypted if it is; no identity is needed. It checks them as Open does.
func (a *Archive) OpenStored(ctx context.Context, m snapshot.Manifest) (io.ReadCloser, error) {
	r, info, err := a.store.Open(ctx, objectName(m.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, corrupt(m.Name, "object is missing")
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", m.Name, err)
	case info.Size != m.StoredSize:
		return nil, errors.Join(corrupt(m.Name, "%d bytes are stored, the manifest says %d", info.Size, m.StoredSize), r.Close())
	}
	return &verified{
		name: m.Name, what: "stored", size: m.StoredSize, sha256: m.StoredSHA256,
		digest: newDigest(), from: r,
	}, nil
}

func corrupt(name, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", name, ErrCorrupt, fmt.Errorf(format, args...))
}

// verified passes on from's bytes and its io.EOF only if they were the ones
// expected.
type verified struct {
	name, what string
	size       int64
	sha256     string
	digest     *digest
	from       io.ReadCloser
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.from.Read(p)
	_, _ = v.digest.Write(p[:n]) // a hash never fails
	switch {
	case v.digest.size > v.size:
		return 0, corrupt(v.name, "more than the %d %s bytes of the manifest", v.size, v.what)
	case err != io.EOF:
		return n, err
	case v.digest.size < v.size:
		return n, corrupt(v.name, "%d %s bytes, the manifest says %d", v.digest.size, v.what, v.size)
	case v.digest.SHA256() != v.sha256:
		return n, corrupt(v.name, "sha256 of the %s bytes is not the manifest's", v.what)
	}
	return n, io.EOF
}

func (v *verified) Close() error { return v.from.Close() }

func (v *verified) SHA256() string { return v.digest.SHA256() }

// unzstd decompresses, and tells the decoder's complaints about the format from
// the errors of what it reads.
type unzstd struct {
	decoder *zstd.Decoder
	packed  *remembering
	name    string
}

func (u *unzstd) Read(p []byte) (int, error) {
	n, err := u.decoder.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if failed := u.packed.failure(); failed != nil {
		return n, failed
	}
	return n, corrupt(u.name, "zstd: %w", err)
}

func (u *unzstd) Close() error {
	u.decoder.Close()
	return u.packed.Close()
}

// ahead decompresses in another goroutine, while what it gave out before is hashed
// and used. What is small is not worth one.
func (u *unzstd) ahead(plain int64) io.ReadCloser {
	if plain <= aheadPieces*aheadPiece {
		return u
	}
	buffered, _ := readahead.NewReadCloserSize(u, aheadPieces, aheadPiece) // fails for sizes of 0 only
	return buffered
}

const (
	aheadPieces = 4
	aheadPiece  = 256 << 10 // bytes
)

// remembering keeps the error with which reading failed; the decoder reads in
// goroutines of its own, and may make another error of it.
type remembering struct {
	io.ReadCloser
	mu     sync.Mutex
	failed error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = err
	}
	return n, err
}

func (r *remembering) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
