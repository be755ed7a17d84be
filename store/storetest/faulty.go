package storetest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"testing/iotest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Op names a method.
type Op string

// The methods of store.Store and store.RangeOpener.
const (
	List   Op = "list"
	Open   Op = "open"
	OpenAt Op = "open at"
	Create Op = "create"
	Remove Op = "remove"
	Read   Op = "read"
	Swap   Op = "swap"
)

// Call is one call of a Faulty store.
type Call struct {
	Op   Op
	N    int    // counts the calls of Op from 1
	Name string // of the object; the prefix of a List
}

// Fault is what goes wrong with a call. The zero Fault is a call that goes well.
type Fault struct {
	// Delay passes before anything else, unless the context ends it.
	Delay time.Duration
	// Err is the answer, if not nil.
	Err error
	// Lost makes the call happen before Err is the answer. Otherwise it does not
	// happen.
	Lost bool
	// Cut, if not 0, lets an Open or OpenAt go well and its content end with Err after
	// that many bytes; nil means io.ErrUnexpectedEOF, and io.EOF is what no
	// provider may do. Of a Create that does not happen it is how much of the
	// source is read nevertheless.
	Cut int64
	// Then, if not nil, is called after the call happened or failed: the moment
	// for somebody else's write.
	Then func()
}

// Script is a schedule: the n-th call of an Op suffers the n-th of its faults;
// calls beyond go well.
type Script map[Op][]Fault

// Plan returns the fault of a call.
func (s Script) Plan(c Call) Fault {
	if faults := s[c.Op]; c.N <= len(faults) {
		return faults[c.N-1]
	}
	return Fault{}
}

// Faulty is a store whose calls fail as planned.
type Faulty struct {
	store store.Store
	plan  func(Call) Fault

	mu    sync.Mutex
	calls map[Op]int
}

// NewFaulty returns s with the faults that plan, which must be safe for
// concurrent use, gives to each call.
func NewFaulty(s store.Store, plan func(Call) Fault) *Faulty {
	return &Faulty{store: s, plan: plan, calls: map[Op]int{}}
}

// Calls returns how often op was called.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *Faulty) String() string { return f.store.String() }

// Unwrap returns the store below.
func (f *Faulty) Unwrap() store.Store { return f.store }

// next counts a call, waits as planned, and returns what is to go wrong.
func (f *Faulty) next(ctx context.Context, op Op, name string) (Fault, error) {
	f.mu.Lock()
	f.calls[op]++
	c := Call{op, f.calls[op], name}
	f.mu.Unlock()

	fault := f.plan(c)
	select {
	case <-time.After(fault.Delay):
		return fault, nil
	case <-ctx.Done():
		return Fault{}, ctx.Err()
	}
}

// suffer returns what do answers, or nothing but the fault's error.
func suffer[T any](fault Fault, do func() (T, error)) (answer T, err error) {
	if fault.Then != nil {
		defer fault.Then()
	}
	if fault.Err == nil || fault.Lost {
		answer, err = do()
	}
	if err == nil && fault.Err != nil {
		var none T
		return none, fault.Err
	}
	return answer, err
}

// List implements store.Reader.
func (f *Faulty) List(ctx context.Context, prefix string) ([]store.Info, error) {
	fault, err := f.next(ctx, List, prefix)
	if err != nil {
		return nil, err
	}
	return suffer(fault, func() ([]store.Info, error) { return f.store.List(ctx, prefix) })
}

// Open implements store.Reader.
func (f *Faulty) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	fault, err := f.next(ctx, Open, name)
	if err != nil {
		return nil, store.Info{}, err
	}
	var info store.Info
	body, err := opened(fault, func() (body io.ReadCloser, err error) {
		body, info, err = f.store.Open(ctx, name)
		return body, err
	})
	if err != nil {
		return nil, store.Info{}, err
	}
	return body, info, nil
}

// OpenAt implements store.RangeOpener, as far as the store below does.
func (f *Faulty) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	ranges, ok := store.As[store.RangeOpener](f.store)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	fault, err := f.next(ctx, OpenAt, name)
	if err != nil {
		return nil, err
	}
	return opened(fault, func() (io.ReadCloser, error) { return ranges.OpenAt(ctx, name, offset, version) })
}

// opened returns the content that open gives, cut as planned.
func opened(fault Fault, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	end := fault.Err
	fault.Lost = false // an open whose answer is lost has not happened
	if fault.Cut > 0 {
		fault.Err = nil
	}
	body, err := suffer(fault, open)
	if err == nil && fault.Cut > 0 {
		body = cut(body, fault.Cut, cmp.Or(end, io.ErrUnexpectedEOF))
	}
	return body, err
}

// cut returns body, ending with err after n bytes.
func cut(body io.ReadCloser, n int64, err error) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, n), iotest.ErrReader(err)), body}
}

// Create implements store.Writer.
func (f *Faulty) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	fault, err := f.next(ctx, Create, name)
	if err != nil {
		return store.Info{}, err
	}
	if fault.Err != nil && !fault.Lost {
		if _, err := io.CopyN(io.Discard, r, fault.Cut); err != nil && err != io.EOF {
			return store.Info{}, err
		}
	}
	return suffer(fault, func() (store.Info, error) { return f.store.Create(ctx, name, r) })
}

// Remove implements store.Writer.
func (f *Faulty) Remove(ctx context.Context, name string) error {
	fault, err := f.next(ctx, Remove, name)
	if err != nil {
		return err
	}
	_, err = suffer(fault, func() (struct{}, error) { return struct{}{}, f.store.Remove(ctx, name) })
	return err
}

// Read implements store.Swapper.
func (f *Faulty) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	fault, err := f.next(ctx, Read, name)
	if err != nil {
		return nil, "", err
	}
	var version store.Version
	data, err := suffer(fault, func() (data []byte, err error) {
		data, version, err = f.store.Read(ctx, name)
		return data, err
	})
	if err != nil {
		return nil, "", err
	}
	return data, version, nil
}

// Swap implements store.Swapper.
func (f *Faulty) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	fault, err := f.next(ctx, Swap, name)
	if err != nil {
		return "", err
	}
	return suffer(fault, func() (store.Version, error) { return f.store.Swap(ctx, name, old, data) })
}
