package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Store is a store in a container. Use New. Set its fields before the first call.
type Store struct {
	// BlockSize is how many bytes of a big object are sent in one request, at
	// least 1 MiB, and Parallel how many requests are sent at once. Create holds
	// as many blocks in memory.
	BlockSize int64
	Parallel  int

	config  Config
	clients *clients
}

func (s *Store) String() string { return "azblob://" + s.config.Container }

// GoString keeps what %#v shows to what String does.
func (s *Store) GoString() string { return fmt.Sprintf("azure.Store(%s)", s) }

func (s *Store) container(ctx context.Context) (*container.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.clients.get(s.config)
}

// blob returns a client of the object with a valid name.
func (s *Store) blob(ctx context.Context, name string) (*blockblob.Client, error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	c, err := s.container(ctx)
	if err != nil {
		return nil, err
	}
	return c.NewBlockBlobClient(name), nil
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
	c, err := s.container(ctx)
	if err != nil {
		return nil, err
	}
	if !startsName(prefix) {
		return nil, nil
	}
	var infos []store.Info
	pages := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Segment.BlobItems {
			if store.CheckName(*item.Name) == nil {
				p := item.Properties
				infos = append(infos, infoOf(*item.Name, p.ContentLength, p.LastModified, p.ETag))
			}
		}
	}
	return infos, nil
}

// startsName reports whether there can be an object whose name starts so.
func startsName(prefix string) bool {
	return prefix == "" || store.CheckName(prefix) == nil || store.CheckName(prefix+"x") == nil
}

// infoOf describes an object by what an answer says of it.
func infoOf(name string, size *int64, modified *time.Time, etag *azcore.ETag) store.Info {
	info := store.Info{Name: name, Version: versionOf(etag)}
	if size != nil {
		info.Size = *size
	}
	if modified != nil {
		info.Modified = *modified
	}
	return info
}

// versionOf drops the quotes, which an ETag has everywhere but in a listing.
func versionOf(etag *azcore.ETag) store.Version {
	if etag == nil {
		return ""
	}
	return store.Version(strings.Trim(string(*etag), `"`))
}

// only makes a request fail unless the object is at a version, or absent if
// there is none.
func only(version store.Version) *blob.AccessConditions {
	conditions := &blob.ModifiedAccessConditions{}
	if all := azcore.ETagAny; version == "" {
		conditions.IfNoneMatch = &all
	} else {
		etag := azcore.ETag(`"` + string(version) + `"`)
		conditions.IfMatch = &etag
	}
	return &blob.AccessConditions{ModifiedAccessConditions: conditions}
}

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	body, info, err := s.open(ctx, name, nil)
	if err != nil {
		return nil, store.Info{}, s.explain("open", name, err)
	}
	return body, info, nil
}

// OpenAt implements store.RangeOpener.
func (s *Store) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	body, _, err := s.open(ctx, name, &blob.DownloadStreamOptions{
		Range:            blob.HTTPRange{Offset: offset},
		AccessConditions: only(version),
	})
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		err = store.ErrChanged
	}
	if err != nil {
		return nil, s.explain("open", name, err)
	}
	return body, nil
}

// open opens an object, or the part of it that the options ask for.
func (s *Store) open(ctx context.Context, name string, options *blob.DownloadStreamOptions) (io.ReadCloser, store.Info, error) {
	b, err := s.blob(ctx, name)
	if err != nil {
		return nil, store.Info{}, err
	}
	answer, err := b.DownloadStream(ctx, options)
	if err != nil {
		return nil, store.Info{}, err
	}
	info := infoOf(name, answer.ContentLength, answer.LastModified, answer.ETag)
	return store.Exact(ctx, answer.Body, info), info, nil
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.remove(ctx, name)
	if err == nil {
		return nil
	}
	if err = s.explain("remove", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) remove(ctx context.Context, name string) error {
	b, err := s.blob(ctx, name)
	if err != nil {
		return err
	}
	with := blob.DeleteSnapshotsOptionTypeInclude // or a blob that has some stays
	_, err = b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: &with})
	return err
}
