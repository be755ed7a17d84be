package copier

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/time/rate"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// burst bounds how many bytes are read at once where bandwidth is bounded.
const burst = 256 << 10

// source is a stored object that can be read again from its beginning, so that
// a store may try again when sending it failed. It does not hand out the last
// bytes before all of them have been found right, so that a reader who knows the
// size cannot do without the check.
type source struct {
	ctx     context.Context
	archive *archive.Archive
	m       snapshot.Manifest
	wrap    func(context.Context, io.Reader) io.Reader
	advance func(int64)

	body   io.ReadCloser // nil: to be opened
	from   io.Reader     // body, wrapped
	offset int64         // of body
	at     int64         // of the next byte to return
	failed error         // with which reading failed last
}

func (j *job) newSource(ctx context.Context, m snapshot.Manifest) *source {
	return &source{ctx: ctx, archive: j.from, m: m, wrap: j.throttled, advance: j.advanceHalf}
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.at >= s.m.StoredSize {
		return 0, io.EOF
	}
	n, err := s.read(p)
	if err != nil {
		s.failed = err
		return 0, err
	}
	s.at += int64(n)
	return n, nil
}

func (s *source) read(p []byte) (int, error) {
	if err := s.goTo(s.at); err != nil {
		return 0, err
	}
	n, err := s.from.Read(p)
	s.count(n)
	if err == nil && s.offset == s.m.StoredSize {
		_, err = io.ReadFull(s.from, make([]byte, 1))
	}
	if err == io.EOF && s.offset == s.m.StoredSize {
		err = nil
	}
	return n, err
}

func (s *source) count(n int) {
	s.offset += int64(n)
	s.advance(int64(n))
}

// goTo makes body continue at an offset.
func (s *source) goTo(offset int64) (err error) {
	if s.body != nil && s.offset > offset {
		s.takeBack()
		if err := s.Close(); err != nil {
			return err
		}
	}
	if s.body == nil {
		if s.body, err = s.archive.OpenStored(s.ctx, s.m); err != nil {
			return err
		}
		s.from = s.wrap(s.ctx, s.body)
	}
	if s.offset < offset {
		var n int64
		n, err = io.CopyN(io.Discard, s.from, offset-s.offset)
		s.count(int(n))
	}
	return err
}

// takeBack says that what was read does not count.
func (s *source) takeBack() {
	s.advance(-s.offset)
	s.offset = 0
}

// Seek implements io.Seeker.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.m.StoredSize
	}
	if offset < 0 || offset > s.m.StoredSize {
		return 0, fmt.Errorf("seek to byte %d of the %d of %s", offset, s.m.StoredSize, s.m.Name)
	}
	s.at, s.failed = offset, nil
	return offset, nil
}

// Close ends reading, for now.
func (s *source) Close() error {
	if s.body == nil {
		return nil
	}
	err := s.body.Close()
	s.body, s.from = nil, nil
	return err
}

// throttled returns r at no more than the bandwidth.
func (j *job) throttled(ctx context.Context, r io.Reader) io.Reader {
	if j.limiter == nil {
		return r
	}
	return &throttled{ctx, r, j.limiter}
}

type throttled struct {
	ctx     context.Context
	r       io.Reader
	limiter *rate.Limiter
}

func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.r.Read(p[:min(len(p), t.limiter.Burst())])
	if waitErr := t.limiter.WaitN(t.ctx, n); waitErr != nil {
		return n, errors.Join(err, waitErr)
	}
	return n, err
}

// counted says how many bytes are read.
type counted struct {
	io.Reader
	advance func(int64)
	total   int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.total += int64(n)
	c.advance(int64(n))
	return n, err
}

// takeBack says that what was read does not count.
func (c *counted) takeBack() { c.advance(-c.total) }

// watched remembers with what error reading failed.
type watched struct {
	io.Reader
	failed error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.failed = err
	}
	return n, err
}
