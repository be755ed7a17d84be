package azure

import (
	"errors"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/etcd-ferry/etcd-ferry/store/cloud"
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

// check complains without repeating what might be secret.
func (c Config) check() error {
	err := cloud.CheckContainer("container", c.Container)
	switch {
	case err != nil:
		return err
	case c.Endpoint != "":
		return cloud.CheckEndpoint(c.Endpoint)
	case c.CredentialsDir == "":
		return errors.New("want the URL of the storage account as endpoint, or a directory of credentials that names it")
	}
	return nil
}

// secret is what a directory of credentials holds. What is absent is empty.
type secret struct{ connection, account, key, sas string }

func (c Config) secret() (s secret, err error) {
	if c.CredentialsDir == "" {
		return s, nil
	}
	if err := cloud.ReadSecret(c.CredentialsDir, map[string]*string{
		"connectionString": &s.connection, "storageAccount": &s.account, "storageKey": &s.key, "sasToken": &s.sas,
	}); err != nil {
		return s, err
	}
	if s.connection == "" && s.account == "" {
		return s, cloud.NoCredentials("want the file storageAccount or connectionString in " + c.CredentialsDir)
	}
	s.sas = strings.TrimPrefix(s.sas, "?")
	return s, nil
}

// connect returns a client that uses a secret, without a request. Its errors do
// not show what the SDK says, which may be part of the secret.
func (c Config) connect(s secret) (*container.Client, error) {
	client, err := c.dial(s)
	if err == nil {
		url, _, _ := strings.Cut(client.URL(), "?") // before a signature
		err = cloud.CheckEndpoint(url)
	}
	if err != nil {
		return nil, cloud.NoCredentials("they make no sense, is a file of " + c.CredentialsDir + " cut off?")
	}
	return client, nil
}

func (c Config) dial(s secret) (*container.Client, error) {
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Transport: &http.Client{Transport: cloud.NewTransport()},
	}}
	if s.connection != "" {
		return container.NewClientFromConnectionString(s.connection, c.Container, options)
	}
	endpoint := strings.TrimRight(c.Endpoint, "/")
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
