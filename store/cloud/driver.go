package cloud

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Driver is one kind of store. The names that it is given are valid, and its
// errors are the SDK's, or those of Fail. Absence is an error of the class
// fs.ErrNotExist, a condition that does not hold fs.ErrExist, or
// store.ErrChanged; where the class depends on more than the error itself the
// driver tells by Fail.
type Driver interface {
	fmt.Stringer

	List(ctx context.Context, prefix string) ([]store.Info, error)
	// Head describes an object and returns the id of the Write that made it, ""
	// if it has none.
	Head(ctx context.Context, name string) (store.Info, string, error)
	// Get opens an object at that version, any if it is empty, from the byte at
	// offset on. The size is that of what comes.
	Get(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, store.Info, error)
	// Put writes data in one request.
	Put(ctx context.Context, w Write, data []byte) (store.Info, error)
	// Upload writes what fits into no request.
	Upload(ctx context.Context, w Write, src *Source) (store.Info, error)
	// Delete deletes an object.
	Delete(ctx context.Context, name string) error

	// Reaches reports whether Copy can name an object of src.
	Reaches(src Driver) bool
	// Copy has the store take over an object of src, if it is still as described.
	Copy(ctx context.Context, w Write, src Driver, was store.Info) (store.Info, error)

	// Explain says what an error of the SDK in op, the name of a method in package
	// store, proves and what to do about it, with Fail. It returns nil for what is
	// no answer of the store.
	Explain(op string, err error) error
}

// Write is an object to write: if it is at version Old, absent if that is empty.
type Write struct {
	Name string
	Old  store.Version
	ID   string // for the metadata, empty if this is a swap
}

// Limits are those of a kind of store.
type Limits struct {
	Single   int64 // bytes that are put in one request; those of a part if 0
	MaxPart  int64 // bytes of a part
	MaxParts int   // of an object
}

// doubt is an error after which the object may have been written.
type doubt struct{ error }

func (d doubt) Unwrap() error { return d.error }

// Doubt marks the error of a write that may have happened: perhaps the answer
// was lost and the SDK has repeated it. Store looks whose object is there, and
// if there is none the error is err.
func Doubt(err error) error {
	if err == nil {
		return nil
	}
	return doubt{err}
}

// Taken is the error of a create whose name is taken, perhaps by itself.
func Taken() error { return Doubt(Fail(fs.ErrExist, "the name is taken")) }
