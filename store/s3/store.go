package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Store is a store in a bucket. Use New.
type Store struct {
	cfg        Config
	connection *connection
}

// New returns the store in a bucket, without looking whether it exists.
func New(cfg Config) (*Store, error) {
	cfg.preset()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Store{cfg, &connection{cfg: cfg}}, nil
}

func (s *Store) String() string { return "s3://" + s.cfg.Bucket }

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Info, error) {
	infos, err := s.list(ctx, prefix)
	if err != nil {
		return nil, s.explain(ctx, "list", prefix, err)
	}
	// Amazon's directory buckets do not list in order.
	slices.SortFunc(infos, func(a, b store.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) (infos []store.Info, err error) {
	if !startsName(prefix) { // not every server takes it
		return nil, nil
	}
	client, err := s.connection.get(ctx)
	if err != nil {
		return nil, err
	}
	in := &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &prefix}
	pages := s3.NewListObjectsV2Paginator(client, in, func(o *s3.ListObjectsV2PaginatorOptions) {
		o.StopOnDuplicateToken = true
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		// Any XML passes for an empty listing, and a lost token for its end.
		if aws.ToString(page.Name) == "" || aws.ToBool(page.IsTruncated) && !pages.HasMorePages() {
			return nil, errNonsense
		}
		for _, object := range page.Contents {
			name := aws.ToString(object.Key)
			if !strings.HasPrefix(name, prefix) || store.CheckName(name) != nil {
				continue
			}
			info, err := infoOf(name, object.Size, object.LastModified, object.ETag)
			if err != nil {
				return nil, err
			}
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// startsName reports whether a name can start with prefix.
func startsName(prefix string) bool {
	return store.CheckName(prefix) == nil || store.CheckName(prefix+"x") == nil
}

func infoOf(name string, size *int64, modified *time.Time, etag *string) (store.Info, error) {
	version, err := versionOf(etag)
	if size == nil || *size < 0 {
		err = errNonsense
	}
	return store.Info{Name: name, Size: aws.ToInt64(size), Modified: aws.ToTime(modified), Version: version}, err
}

// versionOf returns the version that an ETag names.
func versionOf(etag *string) (store.Version, error) {
	v := strings.Trim(aws.ToString(etag), `"`)
	if v == "" {
		return "", errNonsense
	}
	return store.Version(v), nil
}

func etagOf(v store.Version) *string { return aws.String(`"` + string(v) + `"`) }

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	body, info, err := s.get(ctx, name, nil)
	if err != nil {
		return nil, store.Info{}, s.explain(ctx, "open", name, err)
	}
	return body, info, nil
}

// OpenAt implements store.RangeOpener.
func (s *Store) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	body, _, err := s.get(ctx, name, func(in *s3.GetObjectInput) {
		in.Range, in.IfMatch = aws.String(fmt.Sprintf("bytes=%d-", offset)), etagOf(version)
	})
	if err != nil {
		return nil, s.explain(ctx, "open", name, err)
	}
	return body, nil
}

// get opens an object, or the part of it that change asks for.
func (s *Store) get(ctx context.Context, name string, change func(*s3.GetObjectInput)) (io.ReadCloser, store.Info, error) {
	client, err := s.clientFor(ctx, name)
	if err != nil {
		return nil, store.Info{}, err
	}
	in := &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &name}
	if change != nil {
		change(in)
	}
	out, err := client.GetObject(ctx, in)
	if err != nil {
		return nil, store.Info{}, err
	}
	info, err := infoOf(name, out.ContentLength, out.LastModified, out.ETag)
	if err == nil {
		err = checkRange(in.Range, out.ContentRange)
	}
	if err != nil {
		out.Body.Close()
		return nil, store.Info{}, err
	}
	return store.Exact(ctx, out.Body, info), info, nil
}

// checkRange compares what part was asked for, "bytes=5-", and which one came,
// "bytes 5-9/10". A server may know no parts.
func checkRange(asked, came *string) error {
	if asked == nil {
		return nil
	}
	if came == nil {
		return errors.ErrUnsupported
	}
	if !strings.HasPrefix(*came, strings.Replace(*asked, "=", " ", 1)) {
		return errNonsense
	}
	return nil
}

// clientFor returns a client for calls about an object.
func (s *Store) clientFor(ctx context.Context, name string) (*s3.Client, error) {
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	return s.connection.get(ctx)
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	client, err := s.clientFor(ctx, name)
	if err == nil {
		_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: &name})
	}
	return s.explain(ctx, "remove", name, err)
}

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	body, info, err := s.get(ctx, name, nil)
	if err != nil {
		return nil, "", s.explain(ctx, "read", name, err)
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
	if err := errors.Join(store.CheckName(name), store.CheckSize(name, int64(len(data)))); err != nil {
		return "", err
	}
	client, err := s.connection.get(ctx)
	if err != nil {
		return "", s.explain(ctx, "swap", name, err)
	}
	in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &name, Body: bytes.NewReader(data)}
	if old == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = etagOf(old)
	}
	out, err := client.PutObject(ctx, in)
	if err != nil {
		return "", s.explain(ctx, "swap", name, err)
	}
	version, err := versionOf(out.ETag)
	return version, s.explain(ctx, "swap", name, err)
}
