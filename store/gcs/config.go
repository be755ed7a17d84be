package gcs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"github.com/etcd-ferry/etcd-ferry/store/cloud"
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

// check complains without repeating what might be secret.
func (c Config) check() error {
	if err := cloud.CheckContainer("bucket", c.Bucket); err != nil || c.Endpoint == "" {
		return err
	}
	return cloud.CheckEndpoint(c.Endpoint)
}

// key returns the key of the service account, empty if none is configured.
func (c Config) key() (key string, err error) {
	if c.CredentialsDir == "" {
		return "", nil
	}
	if err := cloud.ReadSecret(c.CredentialsDir, map[string]*string{keyFile: &key}); err != nil {
		return "", err
	}
	if !validKey([]byte(key)) {
		return "", cloud.NoCredentials(filepath.Join(c.CredentialsDir, keyFile) + " is not the key of a service account, in JSON as Google gave it")
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
func (c Config) connect(ctx context.Context, key string) (*storage.Client, error) {
	ctx = context.WithoutCancel(ctx) // the client lives longer than the call that makes it
	auth := []option.ClientOption{option.WithScopes(storage.ScopeFullControl, "https://www.googleapis.com/auth/cloud-platform")}
	switch {
	case key != "":
		auth = append(auth, option.WithAuthCredentialsJSON(option.ServiceAccount, []byte(key)))
	case c.Endpoint != "":
		auth = []option.ClientOption{option.WithoutAuthentication()}
	}
	transport, err := htransport.NewTransport(ctx, cloud.NewTransport(), auth...)
	switch {
	case err != nil && key != "": // the text may show what is in the file
		return nil, cloud.NoCredentials(keyFile + " in " + c.CredentialsDir + " makes no sense")
	case err != nil:
		return nil, cloud.Fail(nil, fmt.Sprintf("no application default credentials, configure workload identity or a directory of credentials: %v", err))
	}
	options := []option.ClientOption{
		storage.WithJSONReads(), option.WithoutAuthentication(), option.WithHTTPClient(&http.Client{Transport: transport}),
	}
	if c.Endpoint != "" {
		options = append(options, option.WithEndpoint(strings.TrimRight(c.Endpoint, "/")+"/storage/v1/"))
	}
	client, err := storage.NewClient(ctx, options...)
	if err != nil {
		return nil, err
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return client, nil
}
