package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

const (
	// uploadRetries is how often each request of a create is repeated.
	uploadRetries = 4

	// writeKey is where the metadata of a blob say which call wrote it. Azure
	// wants an identifier, and does not keep its case.
	writeKey = "etcdferrywrite"
)

// Store is a store in a container. Use New.
type Store struct{ *cloud.Store }

// New returns the store in a container, without looking whether it is there.
func New(config Config) (*Store, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	d := &driver{config: config}
	return &Store{cloud.New(d, cloud.Limits{MaxPart: blockblob.MaxStageBlockBytes, MaxParts: blockblob.MaxBlocks})}, nil
}

// driver implements cloud.Driver.
type driver struct {
	config Config
	client cloud.Kept[secret, *container.Client]
}

func (d *driver) String() string { return "azblob://" + d.config.Container }

func (d *driver) container() (*container.Client, error) {
	return d.client.Get(d.config.secret, d.config.connect)
}

func (d *driver) blob(name string) (*blockblob.Client, error) {
	c, err := d.container()
	if err != nil {
		return nil, err
	}
	return c.NewBlockBlobClient(name), nil
}

// errListing is no proof that anything is absent.
var errListing = errors.New("the server's listing lacks what every blob has")

// List implements cloud.Driver.
func (d *driver) List(ctx context.Context, prefix string) (infos []store.Info, err error) {
	c, err := d.container()
	if err != nil {
		return nil, err
	}
	pages := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &prefix, Include: container.ListBlobsInclude{Copy: true},
	})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		if page.Segment == nil {
			return nil, errListing
		}
		for _, item := range page.Segment.BlobItems {
			if item == nil || item.Name == nil || item.Properties == nil {
				return nil, errListing
			}
			if p := item.Properties; whole(p.CopyStatus) {
				infos = append(infos, infoOf(*item.Name, p.ContentLength, p.LastModified, p.ETag))
			}
		}
	}
	return infos, nil
}

// infoOf describes an object by what an answer says of it.
func infoOf(name string, size *int64, modified *time.Time, etag *azcore.ETag) store.Info {
	info := store.Info{Name: name}
	if size != nil {
		info.Size = *size
	}
	if modified != nil {
		info.Modified = *modified
	}
	if etag != nil { // without the quotes, which it has everywhere but in a listing
		info.Version = store.Version(strings.Trim(string(*etag), `"`))
	}
	return info
}

func etagOf(version store.Version) *azcore.ETag {
	etag := azcore.ETag(`"` + string(version) + `"`)
	return &etag
}

// only makes a request fail unless the object is at a version, or absent if
// there is none.
func only(version store.Version) *blob.AccessConditions {
	conditions := &blob.ModifiedAccessConditions{}
	if all := azcore.ETagAny; version == "" {
		conditions.IfNoneMatch = &all
	} else {
		conditions.IfMatch = etagOf(version)
	}
	return &blob.AccessConditions{ModifiedAccessConditions: conditions}
}

// Head implements cloud.Driver.
func (d *driver) Head(ctx context.Context, name string) (store.Info, string, error) {
	b, err := d.blob(name)
	if err != nil {
		return store.Info{}, "", err
	}
	there, err := b.GetProperties(ctx, nil)
	if err != nil {
		return store.Info{}, "", err
	}
	var writer string
	for key, value := range there.Metadata {
		if strings.EqualFold(key, writeKey) && value != nil {
			writer = *value
		}
	}
	return infoOf(name, there.ContentLength, there.LastModified, there.ETag), writer, nil
}

// Get implements cloud.Driver.
func (d *driver) Get(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, store.Info, error) {
	b, err := d.blob(name)
	if err != nil {
		return nil, store.Info{}, err
	}
	options := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset}}
	if version != "" {
		options.AccessConditions = only(version)
	}
	answer, err := b.DownloadStream(ctx, options)
	if err == nil && !whole(answer.CopyStatus) {
		answer.Body.Close()
		err = errCopying
	}
	if err != nil {
		return nil, store.Info{}, err
	}
	return answer.Body, infoOf(name, answer.ContentLength, answer.LastModified, answer.ETag), nil
}

// Delete implements cloud.Driver.
func (d *driver) Delete(ctx context.Context, name string) error {
	b, err := d.blob(name)
	if err != nil {
		return err
	}
	with := blob.DeleteSnapshotsOptionTypeInclude // or a blob that has some stays
	_, err = b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: &with})
	return err
}

// Put implements cloud.Driver.
func (d *driver) Put(ctx context.Context, w cloud.Write, data []byte) (store.Info, error) {
	b, err := d.blob(w.Name)
	if err != nil {
		return store.Info{}, err
	}
	if w.ID != "" {
		ctx = repeating(ctx)
	}
	answer, err := b.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		Metadata: metadata(w), AccessConditions: only(w.Old),
	})
	size := int64(len(data))
	return infoOf(w.Name, &size, answer.LastModified, answer.ETag), taken(err)
}

// Upload implements cloud.Driver.
func (d *driver) Upload(ctx context.Context, w cloud.Write, src *cloud.Source) (store.Info, error) {
	b, err := d.blob(w.Name)
	if err != nil {
		return store.Info{}, err
	}
	ctx = repeating(ctx)
	var mu sync.Mutex
	blocks := map[int]string{}
	size, err := src.Parts(ctx, func(number int, data []byte) error {
		id := blockID(w.ID, number)
		mu.Lock()
		blocks[number] = id
		mu.Unlock()
		_, err := b.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(data)), nil)
		return err
	})
	if err != nil {
		return store.Info{}, err
	}
	var ids []string
	for _, number := range slices.Sorted(maps.Keys(blocks)) {
		ids = append(ids, blocks[number])
	}
	answer, err := b.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
		Metadata: metadata(w), AccessConditions: only(""),
	})
	return infoOf(w.Name, &size, answer.LastModified, answer.ETag), taken(err)
}

// repeating lets the SDK repeat the requests of a create.
func repeating(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: uploadRetries})
}

// blockID is as long as the ids that other programs make: those of one blob must
// be of one length.
func blockID(id string, number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%-58s%06d", id, number))
}

func metadata(w cloud.Write) map[string]*string {
	if w.ID == "" {
		return nil
	}
	return map[string]*string{writeKey: &w.ID}
}

// taken says what an error of a write means. The name may be taken by the write
// itself. A list of blocks is invalid once that of another writer is committed.
func taken(err error) error {
	switch {
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet):
		return cloud.Taken()
	case bloberror.HasCode(err, bloberror.InvalidBlockList):
		return cloud.Doubt(err)
	}
	return err
}
