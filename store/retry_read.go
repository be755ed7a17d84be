package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// resumed is content that is opened again when it breaks off.
type resumed struct {
	ctx      context.Context
	retrier  *Retrier
	info     Info
	body     io.ReadCloser // nil while it is to be opened again
	offset   int64         // of the next byte to return
	failures int           // since a byte was last returned: only progress earns more attempts
	broken   error         // why body is nil
	failed   error         // why there will be no other attempt
}

func (b *resumed) Read(p []byte) (int, error) {
	for b.failed == nil {
		if b.body == nil && !b.resume() {
			continue
		}
		n, err := b.body.Read(p)
		b.offset += int64(n)
		if n > 0 {
			b.failures = 0
		}
		if err == nil || err == io.EOF {
			return n, err
		}
		b.breakOff(err)
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.failed
}

func (b *resumed) breakOff(err error) {
	b.body.Close()
	b.body, b.broken = nil, err
	b.failures++
}

// resume opens the object again at the offset. It reports false if it did not,
// having set failed if there is to be no other attempt.
func (b *resumed) resume() bool {
	if b.failed = b.retrier.pause(b.ctx, b.failures, b.broken); b.failed != nil {
		return false
	}
	body, err := b.reopen()
	if err != nil {
		b.failures++
		b.broken = err
		return false
	}
	b.body = body
	return true
}

// reopen returns the content from the offset on, if the object is the same.
func (b *resumed) reopen() (io.ReadCloser, error) {
	if 0 < b.offset && b.offset < b.info.Size {
		body, err := openAt(b.ctx, b.retrier.store, b.info.Name, b.offset, b.info.Version)
		if !errors.Is(err, errors.ErrUnsupported) {
			return body, err
		}
	}
	body, info, err := b.retrier.store.Open(b.ctx, b.info.Name)
	if err != nil {
		return nil, err
	}
	if info.Version != b.info.Version {
		err = fmt.Errorf("read %s on from byte %d: %w", b.info.Name, b.offset, ErrChanged)
	} else {
		_, err = io.CopyN(io.Discard, body, b.offset)
	}
	if err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

func (b *resumed) Close() error {
	if b.body == nil {
		return nil
	}
	return b.body.Close()
}
