package gcs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

const (
	// DefaultChunkSize is the preset of the size of parts, which are called
	// chunks here, do not grow, and are sent one after the other.
	DefaultChunkSize = 16 << 20

	// singleSize bounds what is sent in one request, without a buffer as large as
	// a chunk. Chunks are multiples of it.
	singleSize = 256 << 10

	// A chunk that takes longer than chunkTimeout is sent again, until
	// chunkDeadline.
	chunkTimeout  = time.Minute
	chunkDeadline = 3 * time.Minute

	// writeKey is where the metadata of an object say which call wrote it.
	writeKey = "etcd-ferry-write"
)

// Store is a store in a bucket. Use New.
type Store struct{ *cloud.Store }

// New returns the store in a bucket, without looking whether it is there.
func New(config Config) (*Store, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	d := &driver{config: config}
	d.store = cloud.New(d, cloud.Limits{Single: singleSize, MaxPart: math.MaxInt, MaxParts: math.MaxInt})
	d.store.PartSize = DefaultChunkSize
	return &Store{d.store}, nil
}

// driver implements cloud.Driver.
type driver struct {
	config Config
	store  *cloud.Store // whose fields apply
	client cloud.Kept[string, *storage.Client]
}

func (d *driver) String() string { return "gs://" + d.config.Bucket }

// bucket returns a handle with the newest credentials that make sense. A client
// that is replaced is not closed, for calls that have it: its idle connections
// end by themselves.
func (d *driver) bucket(ctx context.Context) (*storage.BucketHandle, error) {
	client, err := d.client.Get(d.config.key, func(key string) (*storage.Client, error) { return d.config.connect(ctx, key) })
	if err != nil {
		return nil, err
	}
	return client.Bucket(d.config.Bucket), nil
}

func (d *driver) object(ctx context.Context, name string) (*storage.ObjectHandle, error) {
	bucket, err := d.bucket(ctx)
	if err != nil {
		return nil, err
	}
	return bucket.Object(name), nil
}

// List implements cloud.Driver.
func (d *driver) List(ctx context.Context, prefix string) ([]store.Info, error) {
	bucket, err := d.bucket(ctx)
	if err != nil {
		return nil, err
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
		}
		infos = append(infos, infoOf(attrs))
	}
}

func infoOf(attrs *storage.ObjectAttrs) store.Info {
	return store.Info{Name: attrs.Name, Size: attrs.Size, Modified: attrs.Updated, Version: versionOf(attrs.Generation)}
}

func versionOf(generation int64) store.Version {
	return store.Version(strconv.FormatInt(generation, 10))
}

// at returns the object at a version.
func at(object *storage.ObjectHandle, version store.Version) (*storage.ObjectHandle, int64, error) {
	generation, err := strconv.ParseInt(string(version), 10, 64)
	if err != nil || generation <= 0 { // to Google 0 means any
		return nil, 0, store.ErrChanged
	}
	return object.Generation(generation), generation, nil
}

// Head implements cloud.Driver.
func (d *driver) Head(ctx context.Context, name string) (store.Info, string, error) {
	object, err := d.object(ctx, name)
	if err != nil {
		return store.Info{}, "", err
	}
	attrs, err := object.Attrs(ctx)
	if err != nil {
		return store.Info{}, "", d.missing(ctx, err)
	}
	return infoOf(attrs), attrs.Metadata[writeKey], nil
}

// Get implements cloud.Driver. Where the bucket keeps old generations it reads
// them too.
func (d *driver) Get(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, store.Info, error) {
	object, err := d.object(ctx, name)
	if err == nil && version != "" {
		object, _, err = at(object, version)
	}
	if err != nil {
		return nil, store.Info{}, err
	}
	r, err := object.NewRangeReader(ctx, offset, -1)
	if err != nil {
		return nil, store.Info{}, d.missing(ctx, err)
	}
	return r, store.Info{Name: name, Size: r.Remain(), Modified: r.Attrs.LastModified, Version: versionOf(r.Attrs.Generation)}, nil
}

// missing says what a 404 for an object means: that it is absent if the bucket is
// there. It is in doubt until the bucket has been listed.
func (d *driver) missing(ctx context.Context, err error) error {
	if !errors.Is(err, storage.ErrObjectNotExist) {
		return err
	}
	bucket, err := d.bucket(ctx)
	if err != nil {
		return err
	}
	objects := bucket.Objects(ctx, &storage.Query{Projection: storage.ProjectionNoACL})
	objects.PageInfo().MaxSize = 1
	if _, err := objects.Next(); err != nil && !errors.Is(err, iterator.Done) {
		return err
	}
	return cloud.Absent()
}

// Delete implements cloud.Driver.
func (d *driver) Delete(ctx context.Context, name string) error {
	object, err := d.object(ctx, name)
	if err != nil {
		return err
	}
	return d.missing(ctx, object.Delete(ctx))
}

// Put implements cloud.Driver.
func (d *driver) Put(ctx context.Context, w cloud.Write, data []byte) (store.Info, error) {
	return d.insert(ctx, w, bytes.NewReader(data), 0)
}

// Upload implements cloud.Driver.
func (d *driver) Upload(ctx context.Context, w cloud.Write, src *cloud.Source) (store.Info, error) {
	return d.insert(ctx, w, src, int(d.store.PartSize))
}

// insert writes what src gives in chunks, or if chunk is 0 in one request, which
// is not repeated.
func (d *driver) insert(ctx context.Context, w cloud.Write, src io.Reader, chunk int) (store.Info, error) {
	object, err := d.object(ctx, w.Name)
	if err != nil {
		return store.Info{}, err
	}
	condition := storage.Conditions{DoesNotExist: true}
	if w.Old != "" {
		condition = storage.Conditions{}
		if _, condition.GenerationMatch, err = at(object, w.Old); err != nil {
			return store.Info{}, err
		}
	}
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	object = object.If(condition)
	if chunk > 0 { // by itself the library gives up when a server closes a connection
		object = object.Retryer(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(storage.ShouldRetry))
	}
	o := object.NewWriter(writing)
	o.ContentType = contentType
	if w.ID != "" {
		o.Metadata = map[string]string{writeKey: w.ID}
	}
	o.ChunkTransferTimeout, o.ChunkRetryDeadline, o.ChunkSize = chunkTimeout, chunkDeadline, chunk
	if _, err = io.Copy(o, src); err != nil {
		cancel()      // so that what came is not sent as the whole
		_ = o.Close() // waits until nobody writes; why it failed is known
	} else {
		err = o.Close()
	}
	if err != nil {
		return store.Info{}, d.failed(ctx, err)
	}
	return infoOf(o.Attrs()), nil
}

const contentType = "application/octet-stream"

// failed says what the error of a write means.
func (d *driver) failed(ctx context.Context, err error) error {
	switch statusOf(err) {
	case http.StatusPreconditionFailed:
		return cloud.Taken() // the answer to a chunk may have been lost, and the chunk repeated
	case http.StatusNotFound: // is there a bucket?
		if missing := d.missing(ctx, storage.ErrObjectNotExist); !errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
	}
	return err
}

// Reaches implements cloud.Driver: the same credentials reach both buckets.
func (d *driver) Reaches(src cloud.Driver) bool {
	from, ok := src.(*driver)
	return ok && from.config.Endpoint == d.config.Endpoint && from.config.CredentialsDir == d.config.CredentialsDir
}

// Copy implements cloud.Driver.
func (d *driver) Copy(ctx context.Context, w cloud.Write, src cloud.Driver, was store.Info) (store.Info, error) {
	object, err := d.object(ctx, w.Name)
	if err != nil {
		return store.Info{}, err
	}
	source, err := src.(*driver).object(ctx, was.Name)
	if err == nil {
		source, _, err = at(source, was.Version)
	}
	if err != nil {
		return store.Info{}, err
	}
	copying := object.If(storage.Conditions{DoesNotExist: true}).CopierFrom(source)
	copying.ContentType = contentType
	copying.Metadata = map[string]string{writeKey: w.ID}
	attrs, err := copying.Run(ctx)
	if err != nil {
		return store.Info{}, d.failed(ctx, err)
	}
	return infoOf(attrs), nil
}
