package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// ErrChanged is returned by Swap when the object is not at the version the
// caller expected. Nothing was written.
var ErrChanged = errors.New("object has changed")

// ErrNoContainer says that the container itself, a bucket or a directory, is
// not there. It is never fs.ErrNotExist: where there is no container, the
// absence of an object proves nothing.
var ErrNoContainer = errors.New("store does not exist")

// MaxSwap is the largest object, in bytes, that Read and Swap handle.
// Manifests are far below it.
const MaxSwap = 64 << 10

// Version names one state of an object: an ETag, a generation, a counter.
// Only equality means anything. The empty Version means the object is absent.
type Version string

// Info is what a store says of an object without opening it.
type Info struct {
	Name     string    // relative to the store, slash-separated
	Size     int64     // bytes
	Modified time.Time // the store's clock, zero if it did not say: for people and for ages of a day, never for ordering
	Version  Version
}

// Reader reads objects. A missing object is fs.ErrNotExist, and only a proven
// absence is: a store that refuses or fails never claims that an object is
// missing.
type Reader interface {
	// List returns the objects whose names start with prefix, in byte order
	// of their names. Objects still being written are never listed, nor are
	// foreign ones whose names CheckName refuses.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Open returns the object's content. Reading ends with an error other than
	// io.EOF if fewer bytes than Info.Size arrived, or if ctx ends.
	Open(ctx context.Context, name string) (io.ReadCloser, Info, error)
}

// Writer adds and removes objects. There is no blind overwrite.
type Writer interface {
	// Create writes an object whole or not at all: it appears when r is at its
	// end, and never if r fails, with an error that wraps r's, or ctx ends.
	// If name is taken the answer is fs.ErrExist and the object there is
	// untouched. After any other error the object may or may not be there: look
	// before trying again. Once Create has returned, r is not touched again.
	Create(ctx context.Context, name string, r io.Reader) (Info, error)
	// Remove deletes an object. Removing one that is not there is not an error.
	Remove(ctx context.Context, name string) error
}

// Swapper gives atomic updates of small objects, at most MaxSwap bytes; more is
// fs.ErrInvalid.
type Swapper interface {
	// Read returns the newest content and its version, the one that List, Open
	// and Create give too.
	Read(ctx context.Context, name string) ([]byte, Version, error)
	// Swap replaces the content if the object is still at version old, and
	// creates it if old is empty and the object absent. Otherwise the answer is
	// ErrChanged. After any other error the swap may or may not have happened:
	// read before trying again.
	Swap(ctx context.Context, name string, old Version, data []byte) (Version, error)
}

// Store is a container of objects. String names it for people and carries no
// secret. Implementations are safe for concurrent use. Wrappers have a method
// Unwrap() Store, see As.
type Store interface {
	Reader
	Writer
	Swapper
	fmt.Stringer
}

// RangeOpener is an optional capability: to read on where reading broke off.
type RangeOpener interface {
	// OpenAt returns the content from the byte at offset on, which is above 0
	// and below the size, if the object is still at that version; otherwise the
	// answer is ErrChanged. A wrapper whose store cannot do it answers
	// errors.ErrUnsupported. Reading is as with Open.
	OpenAt(ctx context.Context, name string, offset int64, version Version) (io.ReadCloser, error)
}

// Ignorer is an optional capability: to tell how many objects listings have left out
// because CheckName refuses their names, or because they are nothing that a store makes.
// One that is there is counted by every listing that meets it.
type Ignorer interface{ Ignored() int64 }

// openAt calls the first OpenAt in s and what it wraps.
func openAt(ctx context.Context, s Store, name string, offset int64, version Version) (io.ReadCloser, error) {
	ranges, ok := As[RangeOpener](s)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return ranges.OpenAt(ctx, name, offset, version)
}

// As finds the first store that is a T, an optional capability, in s and what it
// wraps, as errors.As does for errors. A wrapper that changes names must have
// the capability itself if names matter to it.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		wrapper, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// CheckName returns an error wrapping fs.ErrInvalid unless name is a clean,
// relative, slash-separated path of printable ASCII without "..", of at most
// 512 bytes, with no element that begins with a dot. Every provider calls it
// on every name it is given, so that no name can leave the container or collide
// with a temporary file.
func CheckName(name string) error {
	if !validName(name) {
		return fmt.Errorf("object name %.80q: %w", name, fs.ErrInvalid)
	}
	return nil
}

func validName(name string) bool {
	if len(name) > 512 || name == "." || !fs.ValidPath(name) {
		return false
	}
	for i := range len(name) {
		startsElement := i == 0 || name[i-1] == '/'
		if c := name[i]; c <= ' ' || c > '~' || c == '\\' || c == '.' && startsElement {
			return false
		}
	}
	return true
}

// CheckSize returns an error wrapping fs.ErrInvalid if size is above MaxSwap.
// Every provider calls it in Read and Swap.
func CheckSize(name string, size int64) error {
	if size > MaxSwap {
		return fmt.Errorf("object %s of %d bytes, %d are allowed: %w", name, size, MaxSwap, fs.ErrInvalid)
	}
	return nil
}
