package syncobject

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	maxItems  = 100     // of a Set in the object: about half of MaxSize
	maxListed = 200_000 // of a List: more than a month of a delta every 20 s
	maxList   = 128 << 20
)

// Store returns the set in a form that fits into the object: the items of a long
// one are put into an object of the container of the sync object, which the set
// then names by its sha256. Repeated it changes nothing.
func (s Set) Store(ctx context.Context, w store.Store) (Set, error) {
	if err := s.check(); err != nil {
		return s, fmt.Errorf("list of snapshots: %w: %w", ErrInvalid, err)
	}
	if len(s.Items) <= maxItems {
		return s, nil
	}
	data, err := json.Marshal(s.Items)
	if err != nil {
		return s, fmt.Errorf("list of snapshots: %w", err)
	}
	digest := hexSHA256(data)
	stored := s
	stored.Items = nil
	stored.List = &List{Name: "sets/" + digest + ".json", SHA256: digest, Count: len(s.Items)}
	if err := stored.checkItems(); err != nil {
		return s, fmt.Errorf("list of snapshots: %w: %w", ErrInvalid, err)
	}
	_, err = w.Create(ctx, stored.List.Name, bytes.NewReader(data))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return s, fmt.Errorf("list of snapshots: %w", err)
	}
	if _, err := stored.Load(ctx, w); err != nil {
		return s, fmt.Errorf("read back: %w", err)
	}
	return stored, nil
}

// Load returns all items of a set, from the container of the sync object. Its
// error wraps ErrMalformed if the list is not the one that the set names.
func (s Set) Load(ctx context.Context, r store.Reader) ([]Item, error) {
	if s.List == nil {
		return slices.Clone(s.Items), nil
	}
	data, err := readAll(ctx, r, s.List.Name)
	if err != nil {
		return nil, fmt.Errorf("list of snapshots: %w", err)
	}
	if hexSHA256(data) != s.List.SHA256 {
		return nil, fmt.Errorf("list of snapshots: %w: %s has another sha256 than was named", ErrMalformed, s.List.Name)
	}
	var items []Item
	if err := json.Unmarshal(data, &items); err != nil {
		return nil, fmt.Errorf("list of snapshots: %w: %w", ErrMalformed, err)
	}
	if err := (Set{Items: items}).checkItems(); err != nil {
		return nil, fmt.Errorf("list of snapshots: %w: %w", ErrMalformed, err)
	}
	if len(items) != s.List.Count {
		return nil, fmt.Errorf("list of snapshots: %w: it has %d, not %d", ErrMalformed, len(items), s.List.Count)
	}
	return items, nil
}

func readAll(ctx context.Context, r store.Reader, name string) ([]byte, error) {
	content, info, err := r.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if info.Size > maxList {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrMalformed, name, info.Size)
	}
	return io.ReadAll(content)
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
