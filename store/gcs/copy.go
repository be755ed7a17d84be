package gcs

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"

	"cloud.google.com/go/storage"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// CopyFrom implements store.CopierFrom, between buckets that the same
// credentials reach.
func (s *Store) CopyFrom(ctx context.Context, name string, src store.Store, srcName string) (store.Info, bool, error) {
	from, ok := src.(*Store)
	if !ok || from.config.Endpoint != s.config.Endpoint || from.config.CredentialsDir != s.config.CredentialsDir {
		return store.Info{}, false, nil
	}
	info, err := s.copyFrom(ctx, name, from, srcName)
	if err != nil {
		return store.Info{}, true, s.explain("create", name, err)
	}
	return info, true, nil
}

func (s *Store) copyFrom(ctx context.Context, name string, from *Store, srcName string) (store.Info, error) {
	object, err := s.object(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	source, err := from.object(ctx, srcName)
	if err != nil {
		return store.Info{}, err
	}
	was, err := source.Attrs(ctx)
	if err != nil {
		return store.Info{}, err
	}
	_, err = object.Attrs(ctx) // Google heeds the condition below, its stand-ins do not
	switch {
	case err == nil:
		return store.Info{}, fs.ErrExist
	case !errors.Is(err, storage.ErrObjectNotExist):
		return store.Info{}, err
	}
	id := rand.Text()
	copying := object.If(storage.Conditions{DoesNotExist: true}).CopierFrom(source.Generation(was.Generation))
	copying.ContentType = "application/octet-stream"
	copying.Metadata = map[string]string{writeKey: id}
	attrs, err := copying.Run(ctx)
	if isStatus(err, http.StatusPreconditionFailed) {
		return settle(ctx, object, id)
	}
	if err != nil {
		return store.Info{}, err
	}
	return infoOf(attrs), nil
}
