package restorer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	copyBuffer = 1 << 20 // bytes
	// trailerSize is what etcd appends to a database that it streams: the
	// sha256 of the file, whose own size is a multiple of sector.
	trailerSize = sha256.Size
	sector      = 512
)

// full writes the database of the full snapshot into the staged data dir.
func (j *job) full(ctx context.Context) error {
	begun := time.Now()
	m := j.plan.Chain.Full
	content, err := j.archive.Open(ctx, m)
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := os.OpenFile(j.staging.db(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(copyDatabase(&early{File: f}, &counter{content, j.advance}, m), f.Close()); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.FullFetched)
	j.result.FullSeconds = time.Since(begun).Seconds()
	return nil
}

// copyDatabase copies content, that of the full m, but for the trailer, which it
// checks.
func copyDatabase(to io.Writer, content archive.Plain, m snapshot.Manifest) error {
	if m.PlainSize%sector != trailerSize {
		return fmt.Errorf("%s: %w: a file of %d bytes does not end with the sha256 of a database", m.Name, archive.ErrCorrupt, m.PlainSize)
	}
	database := io.LimitReader(content, m.PlainSize-trailerSize)
	if _, err := io.CopyBuffer(struct{ io.Writer }{to}, database, make([]byte, copyBuffer)); err != nil {
		return err
	}
	digest := content.SHA256()
	trailer, err := io.ReadAll(content) // to the end: only there the archive's checks are complete
	if err != nil {
		return err
	}
	if hex.EncodeToString(trailer) != digest {
		return fmt.Errorf("%s: %w: the sha256 that etcd appended is not that of the database", m.Name, archive.ErrCorrupt)
	}
	return nil
}

// early is a file that is on its way to the disk while more of it is written.
// Otherwise the kernel waits for the Sync at the end, and the disk with it.
type early struct {
	*os.File
	written, pushed int64
}

// pushSize is how many bytes are pushed at a time.
const pushSize = 16 << 20

func (e *early) Write(p []byte) (int, error) {
	n, err := e.File.Write(p)
	e.written += int64(n)
	if more := e.written - e.pushed; more >= pushSize {
		push(e.File, e.pushed, more)
		e.pushed = e.written
	}
	return n, err
}

// counter tells how many bytes are read through it.
type counter struct {
	archive.Plain
	count func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Plain.Read(p)
	c.count(int64(n))
	return n, err
}
