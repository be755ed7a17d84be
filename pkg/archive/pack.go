package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// window bounds the memory of an encoder and of whoever decodes its output, in
// bytes.
const window = 4 << 20

// maxWindow is the largest window accepted from a stored object, in bytes: what
// the zstd command line produces at its highest ordinary level.
const maxWindow = 32 << 20

// Summed is content that hashes itself while it is read.
type Summed interface {
	// SHA256 returns the digest of all that was read, hexadecimal. It is called
	// after io.EOF.
	SHA256() string
}

// digest counts and hashes the bytes that pass through it.
type digest struct {
	hash hash.Hash
	size int64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	return d.hash.Write(p)
}

// SHA256 makes a digest Summed.
func (d *digest) SHA256() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// packed says what a packed snapshot weighs and how to know it again.
type packed struct {
	storedSize   int64
	storedSHA256 string
	plainSize    int64
	plainSHA256  string
}

// describe fills in what p knows of the snapshot m.
func (p packed) describe(m snapshot.Manifest) snapshot.Manifest {
	m.StoredSize, m.StoredSHA256, m.PlainSize, m.PlainSHA256 = p.storedSize, p.storedSHA256, p.plainSize, p.plainSHA256
	return m
}

// packer compresses a snapshot on its way to a writer, and encrypts it if it is
// for somebody.
type packer struct {
	stored *digest
	plain  int64          // bytes
	age    io.WriteCloser // nil: not encrypted
	zstd   *zstd.Encoder
}

// newPacker returns a packer that writes to w, some of it at once if it
// encrypts. One that may use more than one goroutine writes to w at any time
// until it is closed.
func newPacker(w io.Writer, goroutines int, to []age.Recipient) (*packer, error) {
	p := &packer{stored: newDigest()}
	w = io.MultiWriter(w, p.stored)
	var err error
	if len(to) > 0 {
		if p.age, err = age.Encrypt(w, to...); err != nil {
			return nil, fmt.Errorf("encrypt: %w", err)
		}
		w = p.age
	}
	p.zstd, err = zstd.NewWriter(w,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(goroutines), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return p, nil
}

// Write packs b.
func (p *packer) Write(b []byte) (int, error) {
	n, err := p.zstd.Write(b)
	p.plain += int64(n)
	return n, err
}

// Close ends the stream. It does not close what is below.
func (p *packer) Close() error {
	err := p.zstd.Close()
	if err == nil && p.age != nil {
		err = p.age.Close()
	}
	return err
}

// packed describes what went through, which content has hashed. Call it after
// Close.
func (p *packer) packed(content Summed) packed {
	return packed{p.stored.size, p.stored.SHA256(), p.plain, content.SHA256()}
}

// Buffer is a snapshot packed in memory, for one caller at a time. Whether it is
// encrypted is decided when it is first saved.
type Buffer struct {
	packer    *packer
	plain     *digest
	bytes     bytes.Buffer
	encrypted bool
}

// NewBuffer returns an empty Buffer.
func NewBuffer() (*Buffer, error) {
	b := &Buffer{plain: newDigest()}
	var err error
	b.packer, err = newPacker(&b.bytes, 1, nil)
	return b, err
}

// Write packs p.
func (b *Buffer) Write(p []byte) (int, error) {
	_, _ = b.plain.Write(p) // a hash never fails
	return b.packer.Write(p)
}

// Close ends the snapshot; only then it can be saved.
func (b *Buffer) Close() error { return b.packer.Close() }

// Len returns the packed bytes held so far.
func (b *Buffer) Len() int { return b.bytes.Len() }

func (b *Buffer) packed() packed { return b.packer.packed(b.plain) }

// encrypt turns what b holds into what is stored, once: the same bytes encrypted
// again are other bytes, and a save that is repeated must bring the same ones.
func (b *Buffer) encrypt(to []age.Recipient) error {
	var sealed bytes.Buffer
	sealed.Grow(b.bytes.Len() + b.bytes.Len()>>10 + 1<<10) // 16 bytes for each 64 KiB, and a header
	stored := newDigest()
	w, err := age.Encrypt(io.MultiWriter(&sealed, stored), to...)
	if err == nil {
		_, err = w.Write(b.bytes.Bytes())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	b.bytes, b.packer.stored, b.encrypted = sealed, stored, true
	return nil
}
