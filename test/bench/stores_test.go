package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aws "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const (
	transferSize   = 2 << 30
	transferRounds = 3
	// A fake-gcs-server hashes all that has come, with each chunk.
	transferSizeGCS = 128 << 20
	// Azurite is slow, and what the SDK takes by default, a part of 1 MiB at a time,
	// makes it slower.
	transferSizeAzure = 256 << 20
)

// rival is a store, and what one does without this project: the calls of the SDK
// with their defaults.
type rival struct {
	ours     store.Store
	size     int64
	upload   func(ctx context.Context, name string, r io.Reader) error
	download func(ctx context.Context, name string) (io.ReadCloser, error)
}

// BenchmarkTransfer uploads and downloads objects of bytes that do not compress,
// with our stores and with the SDKs alone.
func BenchmarkTransfer(b *testing.B) {
	for name, open := range map[string]func(*testing.B) rival{
		"versitygw":       func(b *testing.B) rival { return plainS3(b, storeservers.StartVersityGW(b), transferSize) },
		"minio":           func(b *testing.B) rival { return plainS3(b, storeservers.StartMinIO(b), transferSize) },
		"fake-gcs-server": plainGCS,
		"azurite":         plainAzure,
	} {
		b.Run(name, func(b *testing.B) {
			r := open(b)
			for b.Loop() {
				var took [4][]time.Duration
				for n := range transferRounds {
					for i, d := range r.round(b, n%2 == 1) {
						took[i] = append(took[i], d)
					}
				}
				plainUp, up, plainDown, down := median(took[0]), median(took[1]), median(took[2]), median(took[3])
				b.Logf("%d MiB: upload plain %v, ours %v; download plain %v, ours %v", r.size/mib, plainUp, up, plainDown, down)
				b.ReportMetric(plainUp.Seconds()/up.Seconds(), "of-plain-upload")
				b.ReportMetric(plainDown.Seconds()/down.Seconds(), "of-plain-download")
			}
			tellLoad(b)
		})
	}
}

// round does everything once, first or second with our store, and removes what it
// made. It returns how long the plain upload took, ours, and so the downloads.
func (r rival) round(b *testing.B, oursFirst bool) (took [4]time.Duration) {
	b.Helper()
	ctx := b.Context()
	steps := [4]func() error{
		func() error { return r.upload(ctx, "plain", noise(r.size)) },
		func() error { _, err := r.ours.Create(ctx, "ours", noise(r.size)); return err },
		func() error { body, err := r.download(ctx, "plain"); return drained(body, err) },
		func() error { body, _, err := r.ours.Open(ctx, "ours"); return drained(body, err) },
	}
	order := [4]int{0, 1, 2, 3}
	if oursFirst {
		order = [4]int{1, 0, 3, 2}
	}
	for _, i := range order {
		took[i] = timed(b, steps[i])
	}
	if err := errors.Join(r.ours.Remove(ctx, "plain"), r.ours.Remove(ctx, "ours")); err != nil {
		b.Fatal(err)
	}
	return took
}

func timed(b *testing.B, do func() error) time.Duration {
	b.Helper()
	began := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func drained(body io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, make([]byte, 256<<10))
	return err
}

// noise does not compress, and can only be read.
func noise(size int64) io.Reader {
	return struct{ io.Reader }{io.LimitReader(rand.NewChaCha8([32]byte{1}), size)}
}

// What the transfer manager of Amazon's SDK takes by default.
const (
	plainPart     = 8 << 20
	plainParallel = 5
)

func plainS3(b *testing.B, server *storeservers.S3, size int64) rival {
	b.Helper()
	bucket := server.Bucket(b)
	ours, err := s3.New(s3.Config{
		Bucket: bucket, Endpoint: server.URL, PathStyle: true, CAFile: server.CAFile, CredentialsDir: server.Credentials(b),
	})
	if err != nil {
		b.Fatal(err)
	}
	p := plainBucket{s3Client(server), bucket}
	return rival{ours, size, p.upload, p.download}
}

func s3Client(server *storeservers.S3) *aws.Client {
	return aws.New(aws.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: server.Region, HTTPClient: server.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKeyID, server.SecretAccessKey, ""),
	})
}

type plainBucket struct {
	client *aws.Client
	bucket string
}

// upload sends parts as they are read.
func (p plainBucket) upload(ctx context.Context, name string, r io.Reader) error {
	begun, err := p.client.CreateMultipartUpload(ctx, &aws.CreateMultipartUploadInput{Bucket: &p.bucket, Key: &name})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var parts []types.CompletedPart
	buffers := sync.Pool{New: func() any { return make([]byte, plainPart) }}
	g, sending := errgroup.WithContext(ctx)
	g.SetLimit(plainParallel)
	for number, more := int32(1), true; more; number++ {
		buffer := buffers.Get().([]byte)
		n, err := io.ReadFull(r, buffer)
		if more = err == nil; n == 0 {
			break
		}
		g.Go(func() error {
			defer buffers.Put(buffer) //nolint:staticcheck // SA6002: a header each is nothing beside 8 MiB
			part, err := p.client.UploadPart(sending, &aws.UploadPartInput{
				Bucket: &p.bucket, Key: &name, UploadId: begun.UploadId, PartNumber: &number, Body: bytes.NewReader(buffer[:n]),
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			parts = append(parts, types.CompletedPart{PartNumber: &number, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32})
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	slices.SortFunc(parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	_, err = p.client.CompleteMultipartUpload(ctx, &aws.CompleteMultipartUploadInput{
		Bucket: &p.bucket, Key: &name, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

func (p plainBucket) download(ctx context.Context, name string) (io.ReadCloser, error) {
	out, err := p.client.GetObject(ctx, &aws.GetObjectInput{Bucket: &p.bucket, Key: &name})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

func plainGCS(b *testing.B) rival {
	b.Helper()
	server := storeservers.StartGCS(b)
	server.MakeBucket(b, "bucket")
	ours, err := gcs.New(gcs.Config{Bucket: "bucket", Endpoint: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	client, err := storage.NewClient(b.Context(),
		option.WithEndpoint(server.URL+"/storage/v1/"), option.WithoutAuthentication(), storage.WithJSONReads())
	if err != nil {
		b.Fatal(err)
	}
	bucket := client.Bucket("bucket")
	return rival{
		ours, transferSizeGCS,
		func(ctx context.Context, name string, r io.Reader) error {
			w := bucket.Object(name).NewWriter(ctx)
			if _, err := io.Copy(w, r); err != nil {
				return err
			}
			return w.Close()
		},
		func(ctx context.Context, name string) (io.ReadCloser, error) {
			return bucket.Object(name).NewReader(ctx)
		},
	}
}

func plainAzure(b *testing.B) rival {
	b.Helper()
	server := storeservers.StartAzurite(b)
	server.MakeContainer(b, "container")
	ours, err := azure.New(azure.Config{Container: "container", Endpoint: server.Endpoint, CredentialsDir: server.Credentials(b)})
	if err != nil {
		b.Fatal(err)
	}
	key, err := container.NewSharedKeyCredential(server.Account, server.Key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential(server.Endpoint+"/container", key, nil)
	if err != nil {
		b.Fatal(err)
	}
	return rival{
		ours, transferSizeAzure,
		func(ctx context.Context, name string, r io.Reader) error {
			_, err := client.NewBlockBlobClient(name).UploadStream(ctx, r, nil)
			return err
		},
		func(ctx context.Context, name string) (io.ReadCloser, error) {
			out, err := client.NewBlockBlobClient(name).DownloadStream(ctx, nil)
			return out.Body, err
		},
	}
}
