package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Create implements Writer.
func (r *Retrier) Create(ctx context.Context, name string, src io.Reader) (Info, error) {
	seeker, ok := src.(io.Seeker)
	if !ok {
		return r.store.Create(ctx, name, src)
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return Info{}, fmt.Errorf("create %s: %w", name, err)
	}
	c := &creation{retrier: r, ctx: ctx, name: name, seeker: seeker, start: start}
	c.src = tap(src, func(_ int, err error) {
		if err != nil && err != io.EOF {
			c.srcErr = err
		}
	})
	err = r.do(ctx, c.attempt)
	return c.info, err
}

// creation is one call of Create.
type creation struct {
	retrier *Retrier
	ctx     context.Context
	name    string
	src     io.Reader
	seeker  io.Seeker // of src
	start   int64     // of the content in src
	srcErr  error     // with which src failed since it was rewound
	doubt   bool      // an earlier attempt may have succeeded
	info    Info
}

func (c *creation) attempt() error {
	if err := c.rewind(); err != nil {
		return err
	}
	var err error
	c.info, err = c.retrier.store.Create(c.ctx, c.name, c.src)
	switch {
	case c.srcErr != nil:
		return Permanent(err)
	case c.doubt && errors.Is(err, fs.ErrExist):
		return c.compare(err)
	case err != nil && !IsPermanent(err):
		c.doubt = true
	}
	return err
}

func (c *creation) rewind() error {
	c.srcErr = nil
	_, err := c.seeker.Seek(c.start, io.SeekStart)
	return Permanent(err)
}

// compare returns nil if the object holds the bytes of the source, else taken.
func (c *creation) compare(taken error) error {
	end, err := c.seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return Permanent(err)
	}
	body, info, err := c.retrier.Open(c.ctx, c.name)
	if err != nil {
		return fmt.Errorf("create %s: see whose it is: %w", c.name, err)
	}
	defer body.Close()
	if info.Size != end-c.start {
		return taken
	}
	if err := c.rewind(); err != nil {
		return err
	}
	switch _, err := io.Copy(&matcher{src: c.src}, body); {
	case errors.Is(err, errDiffers):
		return taken
	case err != nil:
		return fmt.Errorf("create %s: see whose it is: %w", c.name, err)
	}
	c.info = info
	return nil
}

var errDiffers = errors.New("differs")

// matcher fails with errDiffers unless what is written to it is what src gives.
type matcher struct {
	src io.Reader
	buf []byte
}

func (m *matcher) Write(p []byte) (int, error) {
	m.buf = append(m.buf[:0], p...)
	if _, err := io.ReadFull(m.src, m.buf); err != nil {
		return 0, err
	}
	if !bytes.Equal(m.buf, p) {
		return 0, errDiffers
	}
	return len(p), nil
}

// Swap implements Swapper.
func (r *Retrier) Swap(ctx context.Context, name string, old Version, data []byte) (Version, error) {
	s := &swap{store: r.store, name: name, old: old, data: data}
	err := r.do(ctx, within(ctx, r.Timeout, s.attempt))
	return s.won, err
}

// swap is one call of Swap.
type swap struct {
	store Store
	name  string
	old   Version
	data  []byte
	doubt bool    // an earlier attempt may have succeeded
	won   Version // not empty once one is known to have
}

func (s *swap) attempt(ctx context.Context) error {
	if s.doubt {
		if err := s.look(ctx); err != nil || s.won != "" {
			return err
		}
	}
	version, err := s.store.Swap(ctx, s.name, s.old, s.data)
	switch {
	case err == nil:
		s.won = version
	case s.doubt && errors.Is(err, ErrChanged):
		return s.settle(ctx, err)
	case !IsPermanent(err):
		s.doubt = true
	}
	return err
}

// look finds out what became of an earlier attempt: it sets won, or returns
// ErrChanged if the object is neither ours nor at the old version.
func (s *swap) look(ctx context.Context) error {
	data, version, err := s.store.Read(ctx, s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		version = ""
	case err != nil:
		return fmt.Errorf("swap %s: see what became of it: %w", s.name, err)
	case bytes.Equal(data, s.data):
		s.won = version
		return nil
	}
	if version != s.old {
		return fmt.Errorf("swap %s: %w", s.name, ErrChanged)
	}
	return nil
}

// settle looks again after changed, the answer that an earlier attempt causes if
// it takes effect late.
func (s *swap) settle(ctx context.Context, changed error) error {
	if err := s.look(ctx); err != nil || s.won != "" {
		return err
	}
	return changed
}
