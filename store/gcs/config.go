package gcs

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"
)

// keyFile is the file of a directory of credentials.
const keyFile = "serviceaccount.json"

// Config says where a bucket is and who may use it. It holds no secret.
type Config struct {
	// Bucket is the name of the bucket, which must exist.
	Bucket string
	// Endpoint is the URL of a server that stands in for Google's; empty means
	// Google's. Without CredentialsDir it is used without authentication.
	Endpoint string
	// CredentialsDir is a directory with the key of a service account in the
	// file serviceaccount.json, such as a mounted Secret. Empty means the
	// application default credentials.
	CredentialsDir string
}

// New returns the store in a bucket, without looking whether it is there.
func New(config Config) (*Store, error) {
	config.Endpoint = strings.TrimRight(config.Endpoint, "/")
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Store{ChunkSize: DefaultChunkSize, config: config, clients: &clients{}}, nil
}

// check complains without repeating what might be secret.
func (c Config) check() error {
	if c.Bucket == "" || strings.ContainsAny(c.Bucket, "/?#@ ") {
		return fmt.Errorf("bucket %.80q: want the name of a bucket, as in gs://name", c.Bucket)
	}
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("endpoint: want a URL, such as http://localhost:4443")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("endpoint: want a URL without user, password, query or fragment; credentials belong into files")
	}
	return nil
}

// key returns the key of the service account, nil if none is configured.
func (c Config) key() ([]byte, error) {
	if c.CredentialsDir == "" {
		return nil, nil
	}
	path := filepath.Join(c.CredentialsDir, keyFile)
	key, err := os.ReadFile(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: credentials: %w", fs.ErrPermission, opaque(err))
	case !validKey(key):
		return nil, fmt.Errorf("%w: credentials: %s is not the key of a service account, in JSON as Google gave it", fs.ErrPermission, path)
	}
	return key, nil
}

// validKey looks at what the client library does not look at before it is used,
// or takes for no key at all.
func validKey(key []byte) bool {
	var account struct {
		Type       string `json:"type"`
		PrivateKey string `json:"private_key"`
	}
	if err := json.Unmarshal(key, &account); err != nil || account.Type != string(option.ServiceAccount) {
		return false
	}
	block, _ := pem.Decode([]byte(account.PrivateKey))
	if block == nil {
		return false
	}
	_, pkcs8Err := x509.ParsePKCS8PrivateKey(block.Bytes)
	_, pkcs1Err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return pkcs8Err == nil || pkcs1Err == nil
}

// connect returns a client that uses a key, without a request to the bucket.
func (c Config) connect(ctx context.Context, key []byte) (*storage.Client, error) {
	options := []option.ClientOption{storage.WithJSONReads()}
	if c.Endpoint != "" {
		options = append(options, option.WithEndpoint(c.Endpoint+"/storage/v1/"))
	}
	switch {
	case key != nil:
		options = append(options, option.WithAuthCredentialsJSON(option.ServiceAccount, key))
	case c.Endpoint != "":
		options = append(options, option.WithoutAuthentication())
	}
	// The client lives longer than the call that makes it.
	client, err := storage.NewClient(context.WithoutCancel(ctx), options...)
	switch {
	case err != nil && key != nil: // the text may show what is in the file
		return nil, fmt.Errorf("%w: credentials: %s in %s makes no sense", fs.ErrPermission, keyFile, c.CredentialsDir)
	case err != nil:
		return nil, fmt.Errorf("no application default credentials, configure workload identity or a directory of credentials: %w", opaque(err))
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return client, nil
}

// clients holds the client for the newest credentials that make sense.
type clients struct {
	mu     sync.Mutex
	client *storage.Client
	digest [sha256.Size]byte // of its key
}

// get returns a client for what the credentials are now. One that is replaced is
// not closed, for calls that have it: its idle connections end by themselves.
func (c *clients) get(ctx context.Context, config Config) (*storage.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, err := config.key()
	digest := sha256.Sum256(key)
	if err == nil && (c.client == nil || c.digest != digest) {
		var client *storage.Client
		if client, err = config.connect(ctx, key); err == nil {
			c.client, c.digest = client, digest
		}
	}
	if c.client == nil {
		return nil, err
	}
	return c.client, nil
}
