package azure

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// Config says where a container is and who may use it. It holds no secret.
type Config struct {
	// Container is the name of the container, which must exist.
	Container string
	// Endpoint is the URL of the storage account. Empty means
	// https://<account>.blob.core.windows.net, with the account that
	// CredentialsDir names; a connection string there is stronger than both.
	Endpoint string
	// CredentialsDir is a directory such as a mounted Secret, see the package's
	// comment for its files. Empty means the default chain.
	CredentialsDir string
}

// New returns the store in a container, without looking whether it is there.
func New(config Config) (*Store, error) {
	config.Endpoint = strings.TrimRight(config.Endpoint, "/")
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Store{BlockSize: DefaultBlockSize, Parallel: DefaultParallel, config: config, clients: &clients{}}, nil
}

// check complains without repeating what might be secret.
func (c Config) check() error {
	if c.Container == "" || strings.ContainsAny(c.Container, "/?#@ ") {
		return fmt.Errorf("container %.80q: want the name of a container, as in azblob://name", c.Container)
	}
	if c.Endpoint == "" && c.CredentialsDir == "" {
		return errors.New("want the URL of the storage account as endpoint, or a directory of credentials that names it")
	}
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || !validURL(c.Endpoint):
		return errors.New("endpoint: want a URL, such as https://account.blob.core.windows.net")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("endpoint: want a URL without user, password, query or fragment; credentials belong into files")
	}
	return nil
}

func validURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// secret is what a directory of credentials holds. What is absent is empty.
type secret struct{ connection, account, key, sas string }

func (c Config) secret() (secret, error) {
	var s secret
	if c.CredentialsDir == "" {
		return s, nil
	}
	// Kubernetes replaces all files at once, by turning this link to another
	// folder. Reading through the link could give files of both.
	dir, err := filepath.EvalSymlinks(filepath.Join(c.CredentialsDir, "..data"))
	if err != nil {
		dir = c.CredentialsDir
	}
	for name, value := range map[string]*string{
		"connectionString": &s.connection, "storageAccount": &s.account, "storageKey": &s.key, "sasToken": &s.sas,
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return secret{}, fmt.Errorf("%w: credentials: %w", fs.ErrPermission, opaque(err))
		}
		*value = strings.TrimSpace(string(data))
	}
	if s.connection == "" && s.account == "" {
		return secret{}, fmt.Errorf("%w: credentials: want the file storageAccount or connectionString in %s", fs.ErrPermission, c.CredentialsDir)
	}
	s.sas = strings.TrimPrefix(s.sas, "?")
	return s, nil
}

// connect returns a client that uses a secret, without a request. Its errors do
// not show what the SDK says, which may be part of the secret.
func (c Config) connect(s secret) (*container.Client, error) {
	client, err := c.dial(s)
	if err != nil || !validURL(client.URL()) {
		return nil, fmt.Errorf("%w: the credentials make no sense, is a file of %s cut off?", fs.ErrPermission, c.CredentialsDir)
	}
	return client, nil
}

func (c Config) dial(s secret) (*container.Client, error) {
	options := &container.ClientOptions{}
	options.Retry = policy.RetryOptions{MaxRetries: -1}
	if s.connection != "" {
		return container.NewClientFromConnectionString(s.connection, c.Container, options)
	}
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = "https://" + s.account + ".blob.core.windows.net"
	}
	at := endpoint + "/" + c.Container
	switch {
	case s.key != "":
		credential, err := container.NewSharedKeyCredential(s.account, s.key)
		if err != nil {
			return nil, err
		}
		return container.NewClientWithSharedKeyCredential(at, credential, options)
	case s.sas != "":
		return container.NewClientWithNoCredential(at+"?"+s.sas, options)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(at, credential, options)
}

// clients holds the client for the newest credentials that make sense.
type clients struct {
	mu     sync.Mutex
	client *container.Client
	digest [sha256.Size]byte // of its secret
}

// get returns a client for what the credentials are now.
func (c *clients) get(config Config) (*container.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := config.secret()
	digest := sha256.Sum256(fmt.Appendf(nil, "%q", s))
	if err == nil && (c.client == nil || c.digest != digest) {
		var client *container.Client
		if client, err = config.connect(s); err == nil {
			c.client, c.digest = client, digest
		}
	}
	if c.client == nil {
		return nil, err
	}
	return c.client, nil
}
