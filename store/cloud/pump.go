package cloud

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Source is what Create reads. It knows how reading failed, and gives the rest
// either as a reader or in parts.
type Source struct {
	r        io.Reader
	size     func(number int) int64
	parallel int
	budget   *budget

	first []byte // has been read and is to be given again
	held  *part  // its memory
	err   error
}

// Read returns what was read at the start, and then the rest. A failure of the
// source is not wrapped: an SDK takes an error that wraps io.EOF for the end.
func (s *Source) Read(p []byte) (int, error) {
	if len(s.first) > 0 {
		n := copy(p, s.first)
		s.first = s.first[n:]
		return n, nil
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
		return n, errSource
	}
	return n, err
}

// start reads up to most bytes, with memory for few if that is all. It reports
// whether it is. Call end when nothing reads the source any more.
func (s *Source) start(ctx context.Context, few, most int64) (whole bool, err error) {
	s.budget.enter()
	data, err := fill(s.r, make([]byte, 0, few))
	if err == nil && few < most {
		if s.held, err = s.budget.take(ctx); err != nil {
			return false, err
		}
		data, err = fill(s.r, append(s.held.empty(most), data...))
	}
	s.first = data
	if err != nil && err != io.EOF {
		return false, sourceError{err}
	}
	return err == io.EOF, nil
}

func (s *Source) end() {
	s.budget.give(s.held)
	s.budget.leave()
}

// fill appends to buf until it is full, or src at its end, which is io.EOF. Unlike
// io.ReadFull it does not take a source that broke off for one that ended.
func fill(src io.Reader, buf []byte) (_ []byte, err error) {
	for len(buf) < cap(buf) && err == nil {
		var more int
		more, err = src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+more]
	}
	return buf, err
}

// Parts calls send with the parts of the source, some at once, and numbers from 0
// on. When it returns no part is on its way, unless ctx has ended: one that
// arrives during an abort can survive it. It returns how many bytes there were.
func (s *Source) Parts(ctx context.Context, send func(number int, data []byte) error) (total int64, err error) {
	g, pumping := errgroup.WithContext(ctx)
	s.r = store.Bound(pumping, s.r)
	own := make(chan struct{}, max(s.parallel, 1)) // one for each part of this source
	own <- struct{}{}
	g.Go(func() error {
		for number := 0; len(s.first) > 0; number++ {
			total += int64(len(s.first))
			data, held := s.first, s.held
			s.first, s.held = nil, nil
			g.Go(func() error {
				defer func() { <-own }()
				defer s.budget.give(held)
				return send(number, data)
			})
			select {
			case own <- struct{}{}:
			case <-pumping.Done():
				return pumping.Err()
			}
			if err := s.next(pumping, s.size(number+1)); err != nil {
				return err
			}
		}
		return nil
	})
	err = g.Wait()
	return total, err
}

// next reads the next part, of up to size bytes.
func (s *Source) next(ctx context.Context, size int64) (err error) {
	if s.held, err = s.budget.take(ctx); err != nil {
		return err
	}
	s.first, err = fill(s.r, s.held.empty(size))
	if err != nil && err != io.EOF {
		return sourceError{err}
	}
	return nil
}
