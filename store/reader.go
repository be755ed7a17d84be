package store

import (
	"context"
	"fmt"
	"io"
)

// Bound returns r, failing with ctx's error once ctx has ended. Providers whose
// own calls do not know contexts read the source of a Create through it.
func Bound(ctx context.Context, r io.Reader) io.Reader { return &bound{ctx, r} }

type bound struct {
	ctx context.Context
	r   io.Reader
}

func (b *bound) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

// Exact returns the content of an object as Open must give it: reading fails if
// body ends before info.Size bytes (io.ErrUnexpectedEOF), goes on after them,
// or ctx ends. Every provider's Open returns it.
func Exact(ctx context.Context, body io.ReadCloser, info Info) io.ReadCloser {
	return &exact{ReadCloser: body, ctx: ctx, info: info}
}

type exact struct {
	io.ReadCloser
	ctx  context.Context
	info Info
	read int64
}

func (e *exact) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read %s: %w", e.info.Name, err)
	}
	n, err := e.ReadCloser.Read(p)
	e.read += int64(n)
	switch {
	case e.read > e.info.Size:
		return n, fmt.Errorf("read %s: it is longer than the %d bytes announced", e.info.Name, e.info.Size)
	case err == io.EOF && e.read < e.info.Size:
		return n, fmt.Errorf("read %s: it ended after %d of %d bytes: %w", e.info.Name, e.read, e.info.Size, io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("read %s: %w", e.info.Name, err)
	}
	return n, err
}

// Drain reads r to its end, whatever it holds: checking readers tell by their
// error. It returns how many bytes there were.
func Drain(r io.Reader) (int64, error) {
	// io.Discard would read in pieces of 8 KiB.
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, drainPiece))
}

const drainPiece = 256 << 10 // bytes

// tap returns r, reporting the outcome of each Read to seen. If r can seek, so
// can what it returns: Retry rewinds with it, and providers learn the size.
func tap(r io.Reader, seen func(n int, err error)) io.Reader {
	t := &tapped{r, seen}
	if seeker, ok := r.(io.Seeker); ok {
		return struct {
			io.Reader
			io.Seeker
		}{t, seeker}
	}
	return t
}

type tapped struct {
	r    io.Reader
	seen func(n int, err error)
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.seen(n, err)
	return n, err
}
