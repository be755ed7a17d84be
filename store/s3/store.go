package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

const (
	// S3's limits. All parts but the last have 5 MiB or more.
	maxParts = 10_000
	maxPart  = 5 << 30

	// attempts of a call that may be repeated, see repeat.
	attempts = 5
	// writeIDKey is the metadata that tells whose an object is.
	writeIDKey = "etcd-ferry-write"
)

// Store is a store in a bucket. Use New.
type Store struct {
	*cloud.Store
	driver *driver
}

// New returns the store in a bucket, without looking whether it exists.
func New(cfg Config) (*Store, error) {
	cfg.preset()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	d := &driver{cfg: cfg}
	d.store = cloud.New(d, cloud.Limits{MaxPart: maxPart, MaxParts: maxParts})
	return &Store{d.store, d}, nil
}

// driver implements cloud.Driver.
type driver struct {
	cfg    Config
	store  *cloud.Store // whose fields apply
	client cloud.Kept[material, *s3.Client]
}

func (d *driver) String() string { return "s3://" + d.cfg.Bucket }

// repeat lets the SDK repeat a call that does no harm when it happens twice.
// The source of a big object can seldom be read again, so that a failed call
// must not cost the whole upload.
func repeat(o *s3.Options) {
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.Backoff = attempts, retry.BackoffDelayerFunc(pause)
		// To the SDK it is an error only with a code of Amazon's.
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{Codes: map[int]struct{}{http.StatusTooManyRequests: {}}})
	})
}

// pause returns how long to wait after an attempt, counted from 1. The SDK's own
// pauses can be next to nothing all in a row; the sum of these is 7.5 s or more,
// so that a line that is dead for seconds does not cost an upload.
func pause(attempt int, _ error) (time.Duration, error) {
	most := time.Second << (attempt - 1)
	return most/2 + rand.N(most/2), nil
}

// List implements cloud.Driver.
func (d *driver) List(ctx context.Context, prefix string) (infos []store.Info, err error) {
	client, err := d.get(ctx)
	if err != nil {
		return nil, err
	}
	in := &s3.ListObjectsV2Input{Bucket: &d.cfg.Bucket, Prefix: &prefix}
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
			info, err := infoOf(name, object.Size, object.LastModified, object.ETag)
			if err != nil && store.CheckName(name) == nil {
				return nil, err
			}
			infos = append(infos, info)
		}
	}
	return infos, nil
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

// Head implements cloud.Driver. Its answer has no body, and so cannot say that an
// object is absent: a Get can.
func (d *driver) Head(ctx context.Context, name string) (store.Info, string, error) {
	client, err := d.get(ctx)
	if err != nil {
		return store.Info{}, "", err
	}
	out, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.cfg.Bucket, Key: &name}, repeat)
	if errors.As(err, new(*types.NotFound)) {
		body, info, err := d.Get(ctx, name, 0, "")
		if err == nil { // it has come meanwhile
			body.Close()
		}
		return info, "", err
	}
	if err != nil {
		return store.Info{}, "", err
	}
	info, err := infoOf(name, out.ContentLength, out.LastModified, out.ETag)
	return info, out.Metadata[writeIDKey], err
}

// Get implements cloud.Driver.
func (d *driver) Get(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, store.Info, error) {
	client, err := d.get(ctx)
	if err != nil {
		return nil, store.Info{}, err
	}
	in := &s3.GetObjectInput{Bucket: &d.cfg.Bucket, Key: &name}
	if version != "" {
		in.Range, in.IfMatch = aws.String(fmt.Sprintf("bytes=%d-", offset)), etagOf(version)
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
	return out.Body, info, nil
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

// Delete implements cloud.Driver.
func (d *driver) Delete(ctx context.Context, name string) error {
	client, err := d.get(ctx)
	if err == nil {
		_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.cfg.Bucket, Key: &name})
	}
	return err
}

// Put implements cloud.Driver.
func (d *driver) Put(ctx context.Context, w cloud.Write, data []byte) (store.Info, error) {
	client, err := d.get(ctx)
	if err != nil {
		return store.Info{}, err
	}
	in := &s3.PutObjectInput{Bucket: &d.cfg.Bucket, Key: &w.Name, Body: bytes.NewReader(data)}
	if w.Old == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = etagOf(w.Old)
	}
	if w.ID != "" {
		in.ContentMD5 = d.md5(data)
		in.ObjectLockMode, in.ObjectLockRetainUntilDate = d.lock()
	}
	out, err := client.PutObject(ctx, in)
	if err != nil {
		return store.Info{}, err
	}
	version, err := versionOf(out.ETag)
	return store.Info{Name: w.Name, Size: int64(len(data)), Version: version}, err
}

// lock returns what retains an object that is made now.
func (d *driver) lock() (types.ObjectLockMode, *time.Time) {
	if d.cfg.LockMode == "" {
		return "", nil
	}
	return types.ObjectLockMode(d.cfg.LockMode), aws.Time(time.Now().Add(d.cfg.LockFor))
}

// md5 returns the sum that S3 insists on for what is to be retained.
func (d *driver) md5(data []byte) *string {
	if d.cfg.LockMode == "" {
		return nil
	}
	sum := md5.Sum(data)
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}
