package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

const (
	// cleanupTimeout bounds what is done after a failure, or beside the work.
	cleanupTimeout = 30 * time.Second
	// A part that the server copies is as large as copyParts parts that are sent.
	copyParts = 8
)

// upload creates an object in parts.
type upload struct {
	*driver
	name string
	id   *string

	mu    sync.Mutex
	parts []types.CompletedPart
}

// Upload implements cloud.Driver.
func (d *driver) Upload(ctx context.Context, w cloud.Write, src *cloud.Source) (store.Info, error) {
	u := &upload{driver: d, name: w.Name}
	u.sweep(ctx)
	return u.run(ctx, w, func() (int64, error) {
		return src.Parts(ctx, func(number int, data []byte) error {
			out, err := u.client(ctx).UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, PartNumber: partNumber(number),
				Body: bytes.NewReader(data), ContentMD5: u.md5(data),
			}, repeat, unsigned)
			if err != nil {
				return err
			}
			return u.add(number, out.ETag)
		})
	})
}

// unsigned leaves the content of a part out of the signature of its request, and
// so spares both sides a SHA-256 of it. Who can change what is on its way could
// also keep it and answer in the server's place, if there is no TLS; either way
// an object counts only after all of it was read back, see package archive.
func unsigned(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

// client returns a client with the credentials of the moment: an upload can last
// longer than they do.
func (u *upload) client(ctx context.Context) *s3.Client {
	client, _ := u.get(ctx) // it has succeeded before, and so it always does
	return client
}

// partNumber is S3's for a part: it counts from 1.
func partNumber(number int) *int32 { return aws.Int32(int32(number + 1)) }

// add notes a part that is there.
func (u *upload) add(number int, etag *string) error {
	if _, err := versionOf(etag); err != nil { // 200 with an error inside, perhaps
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts = append(u.parts, types.CompletedPart{PartNumber: partNumber(number), ETag: etag})
	return nil
}

// run makes an object of the parts that send brings there.
func (u *upload) run(ctx context.Context, w cloud.Write, send func() (int64, error)) (store.Info, error) {
	client, err := u.get(ctx)
	if err != nil {
		return store.Info{}, err
	}
	in := &s3.CreateMultipartUploadInput{Bucket: &u.cfg.Bucket, Key: &u.name, Metadata: map[string]string{writeIDKey: w.ID}}
	in.ObjectLockMode, in.ObjectLockRetainUntilDate = u.lock()
	out, err := client.CreateMultipartUpload(ctx, in, repeat)
	if err != nil {
		return store.Info{}, err
	}
	if u.id = out.UploadId; aws.ToString(u.id) == "" {
		return store.Info{}, errNonsense
	}
	info := store.Info{Name: w.Name}
	if info.Size, err = send(); err == nil {
		info.Version, err = u.complete(ctx)
	}
	if err != nil {
		u.abort(ctx, u.name, u.id) // does nothing to one that is complete
	}
	return info, err
}

// complete makes an object of the parts. Of an answer that is lost the next one
// may be that the name is taken: by this upload.
func (u *upload) complete(ctx context.Context) (store.Version, error) {
	slices.SortFunc(u.parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	out, err := u.client(ctx).CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	}, repeat)
	if err != nil {
		return "", cloud.Doubt(err)
	}
	return versionOf(out.ETag)
}

// abort drops an upload, even if ctx has ended. What cannot be dropped now is
// swept later.
func (u *upload) abort(ctx context.Context, name string, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	in := &s3.AbortMultipartUploadInput{Bucket: &u.cfg.Bucket, Key: &name, UploadId: id}
	_, _ = u.client(ctx).AbortMultipartUpload(ctx, in, repeat)
}

// sweep aborts what crashed writers left in the folder of this upload, as far as
// it can, and the rest next time. This machine's clock is good enough for an age
// of hours: with one that is wrong by a quarter of an hour nothing is allowed.
func (u *upload) sweep(ctx context.Context) {
	folder := strings.TrimPrefix(path.Dir(u.name)+"/", "./")
	listing, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	client, err := u.get(listing)
	if err != nil {
		return
	}
	out, err := client.ListMultipartUploads(listing, &s3.ListMultipartUploadsInput{Bucket: &u.cfg.Bucket, Prefix: &folder})
	if err != nil {
		return
	}
	for _, left := range out.Uploads {
		name := aws.ToString(left.Key)
		if strings.HasPrefix(name, folder) && left.Initiated != nil && time.Since(*left.Initiated) > u.cfg.UploadAge {
			u.abort(ctx, name, left.UploadId)
		}
	}
}

// Reaches implements cloud.Driver.
func (d *driver) Reaches(src cloud.Driver) bool {
	other, ok := src.(*driver)
	if !ok {
		return false
	}
	c, from := d.cfg, other.cfg
	return c.Endpoint == from.Endpoint && c.Region == from.Region && c.CredentialsDir == from.CredentialsDir &&
		c.CustomerKeyFile == "" && from.CustomerKeyFile == ""
}

// Copy implements cloud.Driver, between buckets of one server for the same
// credentials. CopyObject would be one request, but not every server heeds its
// conditions; parts are copied instead, and completed if the name is free.
func (d *driver) Copy(ctx context.Context, w cloud.Write, src cloud.Driver, was store.Info) (store.Info, error) {
	if was.Size <= 0 { // there are no empty parts
		return store.Info{}, errors.ErrUnsupported
	}
	u := &upload{driver: d, name: w.Name}
	return u.run(ctx, w, func() (int64, error) { return was.Size, u.copyParts(ctx, src.(*driver).cfg.Bucket, was) })
}

// copyParts has the server copy all of an object, unless it has changed.
func (u *upload) copyParts(ctx context.Context, bucket string, was store.Info) error {
	source := strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(bucket + "/" + was.Name))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(u.store.Parallel)
	step := max(copyParts*u.store.PartSize, was.Size/(maxParts-1)+1)
	for number := range int((was.Size + step - 1) / step) {
		first := int64(number) * step
		last := min(first+step, was.Size) - 1
		g.Go(func() error {
			out, err := u.client(ctx).UploadPartCopy(ctx, &s3.UploadPartCopyInput{
				Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, PartNumber: partNumber(number),
				CopySource: &source, CopySourceIfMatch: etagOf(was.Version),
				CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", first, last)),
			}, repeat)
			switch api := smithy.APIError(nil); {
			case errors.As(err, &api) && api.ErrorCode() == "PreconditionFailed":
				return cloud.Fail(nil, "the source has changed meanwhile")
			case err != nil:
				return err
			case out.CopyPartResult == nil:
				return errNonsense
			}
			return u.add(number, out.CopyPartResult.ETag)
		})
	}
	return g.Wait()
}
