package store

import "context"

// CopierFrom is the optional capability of a store to take an object from
// another store of its kind without the bytes passing through here.
type CopierFrom interface {
	// CopyFrom is Create with the content of the object srcName of src. It
	// reports false, having done nothing, if that is not possible between these
	// two, or not allowed: then the caller reads and creates. An error is one of
	// Create's, or fs.ErrNotExist if the source is missing; nobody has looked at
	// the bytes.
	CopyFrom(ctx context.Context, name string, src Store, srcName string) (Info, bool, error)
}

// Copy has dst take an object from src, if it can: see CopierFrom. Src is passed
// on without its wrappers, and srcName as it is named there.
func Copy(ctx context.Context, dst Store, name string, src Store, srcName string) (Info, bool, error) {
	to, ok := As[CopierFrom](dst)
	if !ok {
		return Info{}, false, nil
	}
	src, srcName = innermost(src, srcName)
	return to.CopyFrom(ctx, name, src, srcName)
}

// innermost returns the provider below all wrappers, and what it calls name.
func innermost(s Store, name string) (Store, string) {
	for {
		if p, ok := s.(*prefixed); ok {
			name = p.prefix + name
		}
		wrapper, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return s, name
		}
		s = wrapper.Unwrap()
	}
}

// CopyFrom implements CopierFrom, as far as the store below does.
func (p *prefixed) CopyFrom(ctx context.Context, name string, src Store, srcName string) (Info, bool, error) {
	info, done, err := Copy(ctx, p.store, p.prefix+name, src, srcName)
	return p.strip(info), done, err
}
