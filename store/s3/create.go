package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	// attempts of a call that may be repeated, see repeat.
	attempts = 5
	// partsPerSize is after how many parts their size doubles. So 10,000, S3's
	// limit, hold a thousand times more than any object may.
	partsPerSize = 1000
	// writeIDKey is the metadata that tells whose an object is.
	writeIDKey = "etcd-ferry-write"
	// cleanupTimeout bounds what is done after a failure, or beside the work.
	cleanupTimeout = 30 * time.Second
)

// repeat lets the SDK repeat a call that does no harm when it happens twice.
// The source of a big object can seldom be read again, so that a failed call
// must not cost the whole upload.
func repeat(o *s3.Options) {
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = attempts })
}

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	info, err := s.create(ctx, name, r)
	if err != nil {
		return store.Info{}, s.explain(ctx, "create", name, err)
	}
	return info, nil
}

func (s *Store) create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	client, err := s.clientFor(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	first := make([]byte, s.cfg.PartSize)
	switch n, err := fill(store.Bound(ctx, r), first); {
	case err == io.EOF:
		return s.put(ctx, client, name, first[:n])
	case err != nil:
		return store.Info{}, sourceError{err}
	}
	u := &upload{Store: s, name: name, writeID: rand.Text()}
	if there, err := u.head(ctx); err == nil && there != nil { // before it reads gigabytes in vain
		return store.Info{}, fs.ErrExist
	}
	u.sweep(ctx)
	return u.run(ctx, func() error { return u.send(ctx, first, r) })
}

// fill reads until buf is full, or src at its end, which is io.EOF. Unlike
// io.ReadFull it does not take a source that broke off for one that ended.
func fill(src io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = src.Read(buf[n:])
		n += more
	}
	return n, err
}

// put creates an object that fits into one request.
func (s *Store) put(ctx context.Context, client *s3.Client, name string, data []byte) (store.Info, error) {
	in := &s3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: &name, Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"),
		ContentMD5: s.md5(data),
	}
	in.ObjectLockMode, in.ObjectLockRetainUntilDate = s.lock()
	out, err := client.PutObject(ctx, in)
	if err != nil {
		return store.Info{}, err
	}
	version, err := versionOf(out.ETag)
	return store.Info{Name: name, Size: int64(len(data)), Version: version}, err
}

// lock returns what retains an object that is made now.
func (s *Store) lock() (types.ObjectLockMode, *time.Time) {
	if s.cfg.LockMode == "" {
		return "", nil
	}
	return types.ObjectLockMode(s.cfg.LockMode), aws.Time(time.Now().Add(s.cfg.LockFor))
}

// md5 returns the sum that S3 insists on for what is to be retained.
func (s *Store) md5(data []byte) *string {
	if s.cfg.LockMode == "" {
		return nil
	}
	sum := md5.Sum(data)
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

// upload creates an object in parts.
type upload struct {
	*Store
	name    string
	writeID string
	id      *string

	mu    sync.Mutex
	parts []types.CompletedPart
	size  int64
}

// client returns a client with the credentials of the moment: an upload can last
// longer than they do.
func (u *upload) client(ctx context.Context) *s3.Client {
	client, _ := u.connection.get(ctx) // it has succeeded before, and so it always does
	return client
}

// run makes an object of the parts that send uploads.
func (u *upload) run(ctx context.Context, send func() error) (store.Info, error) {
	in := &s3.CreateMultipartUploadInput{
		Bucket: &u.cfg.Bucket, Key: &u.name, Metadata: map[string]string{writeIDKey: u.writeID},
	}
	in.ObjectLockMode, in.ObjectLockRetainUntilDate = u.lock()
	out, err := u.client(ctx).CreateMultipartUpload(ctx, in, repeat)
	if err != nil {
		return store.Info{}, err
	}
	if u.id = out.UploadId; aws.ToString(u.id) == "" {
		return store.Info{}, errNonsense
	}
	if err = send(); err == nil {
		var info store.Info
		if info, err = u.complete(ctx); err == nil {
			return info, nil
		}
	}
	u.abort(ctx, u.name, u.id)
	return store.Info{}, err
}

// send uploads part and what else r gives. When it returns no part is on its
// way, unless ctx has ended: one that arrives during an abort can survive it.
func (u *upload) send(ctx context.Context, part []byte, r io.Reader) error {
	g, pumping := errgroup.WithContext(ctx)
	src := store.Bound(pumping, r)
	free := make(chan []byte, u.cfg.Parallel) // buffers that are not being sent
	for range u.cfg.Parallel - 1 {
		free <- nil
	}
	g.Go(func() error {
		for number := int32(1); ; number++ {
			sending := part
			g.Go(func() error {
				defer func() { free <- sending }()
				return u.sendPart(ctx, number, sending)
			})
			select {
			case part = <-free:
			case <-pumping.Done():
				return pumping.Err()
			}
			var err error
			if part, err = next(src, part, u.cfg.PartSize<<(number/partsPerSize)); err != nil || len(part) == 0 {
				return err
			}
		}
	})
	return g.Wait()
}

// next reads up to size bytes into buf, which grows to hold them.
func next(src io.Reader, buf []byte, size int64) ([]byte, error) {
	buf = slices.Grow(buf[:0], int(size))[:size]
	n, err := fill(src, buf)
	if err != nil && err != io.EOF {
		return nil, sourceError{err}
	}
	return buf[:n], nil
}

func (u *upload) sendPart(ctx context.Context, number int32, data []byte) error {
	out, err := u.client(ctx).UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, PartNumber: &number,
		Body: bytes.NewReader(data), ContentMD5: u.md5(data),
	}, repeat)
	if err != nil {
		return err
	}
	if _, err := versionOf(out.ETag); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts = append(u.parts, types.CompletedPart{PartNumber: &number, ETag: out.ETag})
	u.size += int64(len(data))
	return nil
}

// complete makes an object of the parts. Of an answer that is lost the next one
// may be that the name is taken: by this upload.
func (u *upload) complete(ctx context.Context) (store.Info, error) {
	slices.SortFunc(u.parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	out, err := u.client(ctx).CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.cfg.Bucket, Key: &u.name, UploadId: u.id, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	}, repeat)
	if err != nil {
		return u.settle(ctx, err)
	}
	version, err := versionOf(out.ETag)
	return store.Info{Name: u.name, Size: u.size, Version: version}, err
}

// settle looks whose object is there after a failed completion.
func (u *upload) settle(ctx context.Context, failed error) (store.Info, error) {
	there, err := u.head(ctx)
	switch {
	case err != nil:
		return store.Info{}, errors.New(reason(failed) + ", and what became of it is unknown: " + reason(err))
	case there == nil || there.Metadata[writeIDKey] != u.writeID:
		return store.Info{}, failed
	}
	version, err := versionOf(there.ETag)
	return store.Info{Name: u.name, Size: u.size, Version: version}, err
}

// head returns the object at the name, nil if there is none.
func (u *upload) head(ctx context.Context) (*s3.HeadObjectOutput, error) {
	out, err := u.client(ctx).HeadObject(ctx, &s3.HeadObjectInput{Bucket: &u.cfg.Bucket, Key: &u.name}, repeat)
	if absent := (*types.NotFound)(nil); errors.As(err, &absent) {
		return nil, nil
	}
	return out, err
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
	out, err := u.client(ctx).ListMultipartUploads(listing, &s3.ListMultipartUploadsInput{Bucket: &u.cfg.Bucket, Prefix: &folder})
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
