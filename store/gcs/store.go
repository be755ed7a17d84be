package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Store is a store in a bucket. Use New.
type Store struct {
	// ChunkSize is how many bytes of a big object are sent in one request, and
	// held in memory to be sent again, a multiple of 256 KiB.
	ChunkSize int

	config  Config
	clients *clients
}

func (s *Store) String() string { return "gs://" + s.config.Bucket }

// GoString keeps what %#v shows to what String does.
func (s *Store) GoString() string { return fmt.Sprintf("gcs.Store(%s)", s) }

// object returns a handle of an object with a valid name.
func (s *Store) object(ctx context.Context, name string) (*storage.ObjectHandle, error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	bucket, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	return bucket.Object(name), nil
}

func (s *Store) bucket(ctx context.Context) (*storage.BucketHandle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, err := s.clients.get(ctx, s.config)
	if err != nil {
		return nil, err
	}
	return client.Bucket(s.config.Bucket), nil
}

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Info, error) {
	infos, err := s.list(ctx, prefix)
	if err != nil {
		return nil, s.explain("list", prefix, err)
	}
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) ([]store.Info, error) {
	bucket, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	if !startsName(prefix) {
		return nil, nil
	}
	query := &storage.Query{Prefix: prefix, Projection: storage.ProjectionNoACL}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Updated", "Generation"}); err != nil {
		return nil, err
	}
	var infos []store.Info
	for objects := bucket.Objects(ctx, query); ; {
		attrs, err := objects.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return infos, nil
		case err != nil:
			return nil, err
		case store.CheckName(attrs.Name) == nil:
			infos = append(infos, infoOf(attrs))
		}
	}
}

// startsName reports whether there can be an object whose name starts so.
func startsName(prefix string) bool {
	return prefix == "" || store.CheckName(prefix) == nil || store.CheckName(prefix+"x") == nil
}

func infoOf(attrs *storage.ObjectAttrs) store.Info {
	return store.Info{
		Name:     attrs.Name,
		Size:     attrs.Size,
		Modified: attrs.Updated,
		Version:  versionOf(attrs.Generation),
	}
}

func versionOf(generation int64) store.Version {
	return store.Version(strconv.FormatInt(generation, 10))
}

// generationOf reports false if the version is not one of an object here.
func generationOf(version store.Version) (int64, bool) {
	generation, err := strconv.ParseInt(string(version), 10, 64)
	return generation, err == nil && generation > 0 // to Google 0 means any
}

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	body, info, err := s.open(ctx, name)
	if err != nil {
		return nil, store.Info{}, s.explain("open", name, err)
	}
	return body, info, nil
}

func (s *Store) open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return nil, store.Info{}, err
	}
	r, err := object.NewReader(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		err = s.missing(ctx)
	}
	if err != nil {
		return nil, store.Info{}, err
	}
	info := store.Info{
		Name:     name,
		Size:     r.Attrs.Size,
		Modified: r.Attrs.LastModified,
		Version:  versionOf(r.Attrs.Generation),
	}
	return store.Exact(ctx, r, info), info, nil
}

// OpenAt implements store.RangeOpener. Where the bucket keeps old generations it
// reads them too.
func (s *Store) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	body, err := s.openAt(ctx, name, offset, version)
	if errors.Is(err, fs.ErrNotExist) { // or replaced
		err = store.ErrChanged
	}
	if err != nil {
		return nil, s.explain("open", name, err)
	}
	return body, nil
}

func (s *Store) openAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return nil, err
	}
	generation, ok := generationOf(version)
	if !ok {
		return nil, store.ErrChanged
	}
	r, err := object.Generation(generation).NewRangeReader(ctx, offset, -1)
	if errors.Is(err, storage.ErrObjectNotExist) {
		err = s.missing(ctx)
	}
	if err != nil {
		return nil, err
	}
	return store.Exact(ctx, r, store.Info{Name: name, Size: r.Remain()}), nil
}

// missing says what a 404 for an object means: fs.ErrNotExist if the bucket is
// there.
func (s *Store) missing(ctx context.Context) error {
	bucket, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	objects := bucket.Objects(ctx, &storage.Query{Projection: storage.ProjectionNoACL})
	objects.PageInfo().MaxSize = 1
	if _, err := objects.Next(); err != nil && !errors.Is(err, iterator.Done) {
		return err
	}
	return fs.ErrNotExist
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.remove(ctx, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.explain("remove", name, err)
}

func (s *Store) remove(ctx context.Context, name string) error {
	object, err := s.object(ctx, name)
	if err != nil {
		return err
	}
	err = object.Delete(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return s.missing(ctx)
	}
	return err
}
