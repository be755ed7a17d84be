package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	// A part that the server copies is as large as copyParts parts that are sent.
	copyParts = 8
	// maxCopies bounds the parts of a copy; S3 takes 10,000.
	maxCopies = 9000
)

// CopyFrom implements store.CopierFrom, between buckets of one server for the
// same credentials. CopyObject would be one request, but not every server heeds
// its conditions; parts are copied instead, and completed if the name is free.
func (s *Store) CopyFrom(ctx context.Context, name string, src store.Store, srcName string) (store.Info, bool, error) {
	from, ok := src.(*Store)
	if !ok || !s.cfg.reaches(from.cfg) {
		return store.Info{}, false, nil
	}
	info, err := s.copyFrom(ctx, name, from, srcName)
	if err != nil {
		return store.Info{}, true, s.explain(ctx, "create", name, err)
	}
	return info, true, nil
}

// reaches reports whether one request can name both buckets.
func (c Config) reaches(from Config) bool {
	return c.Endpoint == from.Endpoint && c.Region == from.Region && c.CredentialsDir == from.CredentialsDir &&
		c.CustomerKeyFile == "" && from.CustomerKeyFile == ""
}

func (s *Store) copyFrom(ctx context.Context, name string, from *Store, srcName string) (store.Info, error) {
	client, err := s.clientFor(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	if err := store.CheckName(srcName); err != nil {
		return store.Info{}, err
	}
	src, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &from.cfg.Bucket, Key: &srcName}, repeat)
	if err != nil {
		return store.Info{}, err
	}
	u := &upload{Store: s, name: name, writeID: rand.Text()}
	if there, err := u.head(ctx); err == nil && there != nil {
		return store.Info{}, fs.ErrExist
	}
	return u.run(ctx, func() error { return u.copyParts(ctx, from.cfg.Bucket+"/"+srcName, src) })
}

// copyParts has the server copy all of src, unless it has changed.
func (u *upload) copyParts(ctx context.Context, path string, src *s3.HeadObjectOutput) error {
	size := aws.ToInt64(src.ContentLength)
	if size <= 0 { // there are no empty parts
		return errors.ErrUnsupported
	}
	escaped := strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(path))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(u.cfg.Parallel)
	step := max(copyParts*u.cfg.PartSize, size/maxCopies+1)
	for number := int32(1); ; number++ {
		first := int64(number-1) * step
		if first >= size {
			return g.Wait()
		}
		last := min(first+step, size) - 1
		part := &s3.UploadPartCopyInput{
			Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, PartNumber: &number,
			CopySource: &escaped, CopySourceIfMatch: src.ETag,
			CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", first, last)),
		}
		g.Go(func() error { return u.copyPart(ctx, part, last-first+1) })
	}
}

// copyPart has the server copy one part, of so many bytes.
func (u *upload) copyPart(ctx context.Context, part *s3.UploadPartCopyInput, size int64) error {
	out, err := u.client(ctx).UploadPartCopy(ctx, part, repeat)
	if err != nil {
		return err
	}
	if out.CopyPartResult == nil || aws.ToString(out.CopyPartResult.ETag) == "" { // 200 with an error inside
		return errNonsense
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts = append(u.parts, types.CompletedPart{PartNumber: part.PartNumber, ETag: out.CopyPartResult.ETag})
	u.size += size
	return nil
}
