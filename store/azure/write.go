package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Presets of a Store.
const (
	DefaultBlockSize = 8 << 20
	DefaultParallel  = 4
)

const (
	// Each request of a create is repeated so often, and may take so long.
	uploadRetries = 4
	uploadTimeout = 2 * time.Minute

	// writeKey is where the metadata of a blob say which call wrote it. Azure
	// wants an identifier, and does not keep its case.
	writeKey = "etcdferrywrite"
)

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	src := &source{r: store.Bound(ctx, r)}
	info, err := s.create(ctx, name, src)
	if src.err != nil { // the store's is a consequence
		return store.Info{}, s.say("create", name, src.err)
	}
	if err != nil {
		return store.Info{}, s.explain("create", name, err)
	}
	return info, nil
}

func (s *Store) create(ctx context.Context, name string, src *source) (store.Info, error) {
	b, err := s.blob(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: uploadRetries, TryTimeout: uploadTimeout})
	c := &creation{ctx: ctx, blob: b, name: name, id: rand.Text(), src: src}
	var head bytes.Buffer
	switch _, err := io.CopyN(&head, src, s.BlockSize); err {
	case nil:
		return c.settle(c.stream(&head, s.BlockSize, s.Parallel))
	case io.EOF:
		info, err := c.settle(c.put(head.Bytes()))
		if errors.Is(err, errUnfinished) { // a list of blocks does not mind
			info, err = c.settle(c.commit(head.Bytes()))
		}
		return info, err
	default:
		return store.Info{}, err
	}
}

// creation is one call of Create.
type creation struct {
	ctx  context.Context
	blob *blockblob.Client
	name string
	id   string // in the metadata of what it writes
	src  *source
}

// stream uploads a head and the rest of the source in blocks.
func (c *creation) stream(head io.Reader, blockSize int64, parallel int) (store.Info, error) {
	answer, err := c.blob.UploadStream(c.ctx, io.MultiReader(head, c.src), &blockblob.UploadStreamOptions{
		BlockSize: blockSize, Concurrency: parallel, Metadata: c.metadata(), AccessConditions: only(""),
	})
	return infoOf(c.name, &c.src.size, answer.LastModified, answer.ETag), err
}

// put uploads data in one request.
func (c *creation) put(data []byte) (store.Info, error) {
	answer, err := c.blob.Upload(c.ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		Metadata: c.metadata(), AccessConditions: only(""),
	})
	return infoOf(c.name, &c.src.size, answer.LastModified, answer.ETag), err
}

// commit uploads data as one block.
func (c *creation) commit(data []byte) (store.Info, error) {
	var blocks []string
	if len(data) > 0 { // there are no empty blocks
		blocks = []string{blockID(c.id)}
		if _, err := c.blob.StageBlock(c.ctx, blocks[0], streaming.NopCloser(bytes.NewReader(data)), nil); err != nil {
			return store.Info{}, err
		}
	}
	answer, err := c.blob.CommitBlockList(c.ctx, blocks, &blockblob.CommitBlockListOptions{
		Metadata: c.metadata(), AccessConditions: only(""),
	})
	return infoOf(c.name, &c.src.size, answer.LastModified, answer.ETag), err
}

// blockID is as long as the ids that the SDK makes: those of one blob must be of
// one length.
func blockID(id string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%-64s", id))
}

func (c *creation) metadata() map[string]*string { return map[string]*string{writeKey: &c.id} }

// errUnfinished says that a name was taken, and no object is there: it has been
// removed meanwhile, or there are blocks of an upload that never ended, which
// some servers take for an object.
var errUnfinished = errors.New("the name was taken, but nothing is there")

// settle looks whose object took the name, if it did. It is ours if the answer
// to a request was lost and the request repeated.
func (c *creation) settle(info store.Info, err error) (store.Info, error) {
	// A list of blocks is invalid once that of another writer is committed.
	if !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.InvalidBlockList) {
		return info, err
	}
	there, err := c.blob.GetProperties(c.ctx, nil)
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return store.Info{}, errUnfinished
	case err != nil:
		return store.Info{}, err
	}
	for key, value := range there.Metadata {
		if strings.EqualFold(key, writeKey) && value != nil && *value == c.id {
			return infoOf(c.name, there.ContentLength, there.LastModified, there.ETag), nil
		}
	}
	return store.Info{}, fs.ErrExist
}

// source knows what it has given, and how reading failed.
type source struct {
	r    io.Reader
	size int64
	err  error
}

var errSource = errors.New("the source failed")

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.size += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
		return n, errSource // the SDK takes an error that wraps io.EOF for the end
	}
	return n, err
}

// Read implements store.Swapper.
func (s *Store) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	data, version, err := s.read(ctx, name)
	if err != nil {
		return nil, "", s.explain("read", name, err)
	}
	return data, version, nil
}

func (s *Store) read(ctx context.Context, name string) ([]byte, store.Version, error) {
	body, info, err := s.open(ctx, name, nil)
	if err != nil {
		return nil, "", err
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
	version, err := s.swap(ctx, name, old, data)
	if err != nil {
		return "", s.explain("swap", name, err)
	}
	return version, nil
}

func (s *Store) swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	b, err := s.blob(ctx, name)
	if err != nil {
		return "", err
	}
	if err := store.CheckSize(name, int64(len(data))); err != nil {
		return "", err
	}
	answer, err := b.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{AccessConditions: only(old)})
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.BlobNotFound) {
		return "", store.ErrChanged
	}
	return versionOf(answer.ETag), err
}
