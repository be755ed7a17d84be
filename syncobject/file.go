package syncobject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// The presets of a File.
const (
	DefaultPace     = time.Second      // GCS allows one write a second of one name
	DefaultTimeout  = 10 * time.Second // of one call of the store, during an Update
	DefaultAttempts = 10               // to read and write, during an Update
	DefaultPause    = 200 * time.Millisecond
)

// File is an object in a store that is changed by compare-and-swap only. It is
// safe for concurrent use; its updates happen one after the other. Set its fields
// before the first call. The store should be one without Retry: a File finds out
// itself what has happened.
type File[T document[T]] struct {
	Pace     time.Duration // least time between two writes by this File
	Timeout  time.Duration // of one call of the store, during an Update
	Attempts int           // to read and write, during an Update
	Pause    time.Duration // bound of the pause after the first failure, doubled by each further one up to 16 times
	// Rand parts writers that are at odds: in [0,1), safe for concurrent use.
	Rand func() float64

	store store.Swapper
	name  string
	parse func([]byte) (T, error)

	turn    chan struct{} // holds one token, of the Update that is at it
	written time.Time     // the last swap that may have happened; of the holder of turn
	seen    atomic.Bool   // it was there once
}

// document is an object that a File can hold. The zero value is its absence.
type document[T any] interface {
	Absent() bool
	Encode() ([]byte, error)
	stamp(id string, now Timestamp) T // for its next write
	writeID() string
}

// NewFile returns the sync object of a container.
func NewFile(s store.Swapper) *File[Object] { return newFile(s, ObjectName, Parse) }

// NewOwnerFile returns the owner.json of a container.
func NewOwnerFile(s store.Swapper) *File[Owner] { return newFile(s, OwnerName, ParseOwner) }

func newFile[T document[T]](s store.Swapper, name string, parse func([]byte) (T, error)) *File[T] {
	return &File[T]{
		Pace: DefaultPace, Timeout: DefaultTimeout, Attempts: DefaultAttempts, Pause: DefaultPause, Rand: rand.Float64,
		store: s, name: name, parse: parse, turn: make(chan struct{}, 1),
	}
}

// Read returns what is there: one attempt, for as long as ctx lets it. The error
// is fs.ErrNotExist only if the absence is proven; see ErrMalformed and
// ErrUnknown for the others.
func (f *File[T]) Read(ctx context.Context) (T, error) {
	t, _, err := f.read(ctx)
	return t, err
}

func (f *File[T]) read(ctx context.Context) (t T, version store.Version, err error) {
	data, version, err := f.store.Read(ctx, f.name)
	if err != nil {
		return t, "", fmt.Errorf("read %s: %w", f.name, err)
	}
	f.seen.Store(true)
	if t, err = f.parse(data); err != nil {
		return t, version, fmt.Errorf("read %s: %w", f.name, err)
	}
	return t, version, nil
}

// Update replaces what is there by what step makes of it, and returns that and
// whether it was written. The step gets the zero value if nothing is there. It
// may be called several times and must be pure. Nothing is written if it changes
// nothing. Its error ends the update and comes back with what it was given.
//
// After each swap that did not plainly succeed the object is read again: if its
// write id is of this call, the swap had succeeded; else the step is tried on
// what is there now. When that does not come to an end within Attempts or ctx,
// the error says whether a write may have happened, or may yet: ErrAmbiguous.
func (f *File[T]) Update(ctx context.Context, step func(T) (T, error)) (t T, wrote bool, err error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return t, false, fmt.Errorf("update %s: %w", f.name, context.Cause(ctx))
	}
	u := update[T]{File: f, step: step, ids: map[string]bool{}}
	t, wrote, err = u.run(ctx)
	if err != nil {
		return t, wrote, fmt.Errorf("update %s: %w", f.name, err)
	}
	return t, wrote, nil
}

// look reads within Timeout. An absent object is the zero value, unless it was
// there once.
func (f *File[T]) look(ctx context.Context) (t T, version store.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	t, version, err = f.read(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, version, err
	}
	if f.seen.Load() {
		return t, "", ErrVanished
	}
	return t, "", nil
}

func (f *File[T]) swap(ctx context.Context, old store.Version, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	_, err := f.store.Swap(ctx, f.name, old, data)
	if !refused(err) && !errors.Is(err, store.ErrChanged) {
		f.written = time.Now()
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	f.seen.Store(true)
	return nil
}

// refused reports whether err says that nothing was done and that another try
// would end the same.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, store.ErrNoContainer)
}

func (o Object) stamp(id string, now Timestamp) Object {
	if o.OperationID == "" {
		o.OperationID = id
	}
	if o.CreatedAt == "" {
		o.CreatedAt = now
	}
	o.Serial++
	o.SchemaVersion, o.WriteID, o.UpdatedAt = SchemaVersion, id, now
	return o
}

func (o Object) writeID() string { return o.WriteID }

func (o Owner) stamp(id string, now Timestamp) Owner {
	o.Serial++
	o.SchemaVersion, o.WriteID, o.UpdatedAt = SchemaVersion, id, now
	return o
}

func (o Owner) writeID() string { return o.WriteID }
