package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"cloud.google.com/go/storage"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	// DefaultChunkSize is the preset of Store.ChunkSize.
	DefaultChunkSize = 16 << 20

	// smallSize bounds what is sent in one request, without a buffer as large
	// as a chunk.
	smallSize = 256 << 10

	// A chunk that takes longer than chunkTimeout is sent again, until
	// chunkDeadline.
	chunkTimeout  = time.Minute
	chunkDeadline = 3 * time.Minute

	// writeKey is where the metadata of an object say which call wrote it.
	writeKey = "etcd-ferry-write"
)

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	src := &source{r: store.Bound(ctx, r)}
	info, err := s.create(ctx, name, src)
	if src.err != nil { // the store's is a consequence
		return store.Info{}, s.say("create", name, src.err)
	}
	if err != nil {
		return store.Info{}, s.explain("create", name, err)
	}
	return info, nil
}

func (s *Store) create(ctx context.Context, name string, src *source) (store.Info, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	id := rand.Text()
	attrs, err := s.insert(ctx, object.If(storage.Conditions{DoesNotExist: true}), src, id)
	if isStatus(err, http.StatusPreconditionFailed) {
		return settle(ctx, object, id)
	}
	if err != nil {
		return store.Info{}, err
	}
	return infoOf(attrs), nil
}

// settle looks whose object took the name. It is ours if the answer to a chunk
// was lost and the chunk repeated.
func settle(ctx context.Context, object *storage.ObjectHandle, id string) (store.Info, error) {
	attrs, err := object.Attrs(ctx)
	switch {
	case err == nil && attrs.Metadata[writeKey] == id:
		return infoOf(attrs), nil
	case err == nil || errors.Is(err, storage.ErrObjectNotExist): // removed meanwhile
		return store.Info{}, fs.ErrExist
	}
	return store.Info{}, err
}

// insert writes what src gives, on the conditions of the handle.
func (s *Store) insert(ctx context.Context, object *storage.ObjectHandle, src *source, id string) (*storage.ObjectAttrs, error) {
	head := make([]byte, smallSize)
	n, _ := io.ReadFull(src, head)
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	w := object.NewWriter(writing)
	w.ContentType = "application/octet-stream"
	w.Metadata = map[string]string{writeKey: id}
	w.ChunkTransferTimeout, w.ChunkRetryDeadline = chunkTimeout, chunkDeadline
	w.ChunkSize = s.ChunkSize
	if n < smallSize { // that is all, and one request
		w.ChunkSize = smallSize
	}
	err := src.err
	if err == nil {
		_, err = io.Copy(w, io.MultiReader(bytes.NewReader(head[:n]), src))
	}
	if err != nil {
		cancel()      // so that what came is not sent as the whole
		_ = w.Close() // waits until nobody writes; why it failed is known
	} else {
		err = w.Close()
	}
	if isStatus(err, http.StatusNotFound) {
		return nil, s.lost(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return w.Attrs(), nil
}

// lost says what a 404 for an upload means: there is no bucket, else err.
func (s *Store) lost(ctx context.Context, err error) error {
	if missing := s.missing(ctx); !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	return err
}

// source remembers how reading failed.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	data, version, err := s.read(ctx, name)
	if err != nil {
		return nil, "", s.explain("read", name, err)
	}
	return data, version, nil
}

func (s *Store) read(ctx context.Context, name string) ([]byte, store.Version, error) {
	body, info, err := s.open(ctx, name)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	if err := store.CheckSize(name, info.Size); err != nil {
		return nil, "", err
	}
	data, err := io.ReadAll(body)
	return data, info.Version, err
}

// Swap implements store.Swapper.
func (s *Store) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	version, err := s.swap(ctx, name, old, data)
	if err != nil {
		return "", s.explain("swap", name, err)
	}
	return version, nil
}

func (s *Store) swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return "", err
	}
	if err := store.CheckSize(name, int64(len(data))); err != nil {
		return "", err
	}
	condition := storage.Conditions{DoesNotExist: true}
	if old != "" {
		generation, ok := generationOf(old)
		if !ok {
			return "", store.ErrChanged
		}
		condition = storage.Conditions{GenerationMatch: generation}
	}
	attrs, err := s.insert(ctx, object.If(condition), &source{r: bytes.NewReader(data)}, rand.Text())
	if isStatus(err, http.StatusPreconditionFailed) {
		return "", store.ErrChanged
	}
	if err != nil {
		return "", err
	}
	return versionOf(attrs.Generation), nil
}
