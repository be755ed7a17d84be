package store

import (
	"context"
	"io"
	"strings"
)

// Prefix returns the part of s whose names start with prefix and a slash, with
// names relative to it. Slashes around prefix do not matter; an empty one means
// all of s. With a prefix that CheckName refuses every call fails, except that
// List finds nothing.
func Prefix(s Store, prefix string) Store {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return s
	}
	return &prefixed{s, prefix + "/"}
}

// prefixed leaves refusing bad names to the store below, because a bad name
// stays bad behind a prefix: each of its elements is still there.
type prefixed struct {
	store  Store
	prefix string
}

func (p *prefixed) String() string {
	return strings.TrimSuffix(p.store.String(), "/") + "/" + strings.TrimSuffix(p.prefix, "/")
}

func (p *prefixed) Unwrap() Store { return p.store }

func (p *prefixed) strip(info Info) Info {
	info.Name = strings.TrimPrefix(info.Name, p.prefix)
	return info
}

func (p *prefixed) List(ctx context.Context, prefix string) ([]Info, error) {
	infos, err := p.store.List(ctx, p.prefix+prefix)
	for i := range infos {
		infos[i] = p.strip(infos[i])
	}
	return infos, err
}

func (p *prefixed) Open(ctx context.Context, name string) (io.ReadCloser, Info, error) {
	body, info, err := p.store.Open(ctx, p.prefix+name)
	return body, p.strip(info), err
}

// OpenAt implements RangeOpener.
func (p *prefixed) OpenAt(ctx context.Context, name string, offset int64, version Version) (io.ReadCloser, error) {
	return openAt(ctx, p.store, p.prefix+name, offset, version)
}

func (p *prefixed) Create(ctx context.Context, name string, r io.Reader) (Info, error) {
	info, err := p.store.Create(ctx, p.prefix+name, r)
	return p.strip(info), err
}

func (p *prefixed) Remove(ctx context.Context, name string) error {
	return p.store.Remove(ctx, p.prefix+name)
}

func (p *prefixed) Read(ctx context.Context, name string) ([]byte, Version, error) {
	return p.store.Read(ctx, p.prefix+name)
}

func (p *prefixed) Swap(ctx context.Context, name string, old Version, data []byte) (Version, error) {
	return p.store.Swap(ctx, p.prefix+name, old, data)
}
