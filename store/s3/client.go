package s3

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// connection holds the SDK's client, and makes another one when the files that
// it was made of have changed. Only a new one forgets the signing key that the
// SDK derives from a secret and keeps by the id that goes with it.
type connection struct {
	cfg Config

	mu     sync.Mutex
	made   *material // of what client is
	client *s3.Client
}

// material is what is in files and makes a client.
type material struct {
	secret
	ca, customerKey string
}

// get returns a client. Once there is one, new files that are bad change nothing.
func (c *connection) get(ctx context.Context) (*s3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.material()
	if err == nil && (c.client == nil || *c.made != m) {
		var client *s3.Client
		if client, err = c.connect(ctx, m); err == nil {
			c.client, c.made = client, &m
		}
	}
	if c.client != nil {
		return c.client, nil
	}
	return nil, err
}

func (c *connection) material() (m material, err error) {
	if c.cfg.CredentialsDir != "" {
		if m.secret, err = readSecret(c.cfg.CredentialsDir); err != nil {
			return material{}, err
		}
	}
	m.endpoint, m.region = cmp.Or(c.cfg.Endpoint, m.endpoint), cmp.Or(c.cfg.Region, m.region)
	for path, content := range map[string]*string{c.cfg.CAFile: &m.ca, c.cfg.CustomerKeyFile: &m.customerKey} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil { // not an absent object
			return material{}, fmt.Errorf("%w: %s", fs.ErrPermission, err.Error())
		}
		*content = string(data)
	}
	if n := len(m.customerKey); c.cfg.CustomerKeyFile != "" && n != 32 {
		return material{}, fmt.Errorf("%w: %s holds %d bytes, a key has 32", fs.ErrPermission, c.cfg.CustomerKeyFile, n)
	}
	return m, nil
}

func (c *connection) connect(ctx context.Context, m material) (*s3.Client, error) {
	transport, err := trusting(m.ca)
	if err != nil {
		return nil, err
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(transport), config.WithLogger(logging.Nop{}), config.WithRegion(m.region),
	}
	if m.accessKeyID != "" {
		keys := credentials.NewStaticCredentialsProvider(m.accessKeyID, m.secretAccessKey, m.sessionToken)
		options = append(options, config.WithCredentialsProvider(keys))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	loaded.Region = cmp.Or(loaded.Region, "us-east-1")
	if buildable, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		loaded.HTTPClient = watched(buildable, c.cfg.Stall)
	}
	return s3.NewFromConfig(loaded, func(o *s3.Options) { c.set(o, m) }), nil
}

func (c *connection) set(o *s3.Options, m material) {
	if m.endpoint != "" {
		o.BaseEndpoint = &m.endpoint
	}
	o.UsePathStyle = c.cfg.PathStyle
	// The sums that the SDK adds by itself break other servers. What is sent is
	// protected anyway: its SHA-256 is in the signature.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.Retryer = aws.NopRetryer{} // store.Retry knows what may be repeated, see doc.go
	o.APIOptions = append(o.APIOptions, encryption(c.cfg.KMSKeyID, m.customerKey))
}

// trusting returns the SDK's transport, trusting the certificates in PEM too.
func trusting(ca string) (*awshttp.BuildableClient, error) {
	client := awshttp.NewBuildableClient()
	if ca == "" {
		return client, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(ca)) {
		return nil, fmt.Errorf("%w: the CA file holds no certificate in PEM", fs.ErrPermission)
	}
	return client.WithTransportOptions(func(t *http.Transport) {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.RootCAs = pool
	}), nil
}

// watched returns client with connections that fail when they stall.
func watched(client *awshttp.BuildableClient, stall time.Duration) aws.HTTPClient {
	return client.WithReadTimeout(0).WithTransportOptions(func(t *http.Transport) {
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watchedConn{conn, stall}, nil
		}
	}).Freeze()
}

// watchedConn fails when nothing moves in either direction for a while, but only
// while somebody waits for it: what was received may be read slowly.
type watchedConn struct {
	net.Conn
	stall time.Duration
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write sends little by little, for the deadline to be about moving on and not
// about all of p.
func (c *watchedConn) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, 64<<10) {
		if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
			return n, err
		}
		sent, err := c.Conn.Write(piece)
		n += sent
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// encryption adds the headers of server-side encryption to the calls that take
// them.
func encryption(kmsKeyID, customerKey string) func(*middleware.Stack) error {
	write, all := map[string]string{}, map[string]string{}
	const prefix = "X-Amz-Server-Side-Encryption"
	if kmsKeyID != "" {
		write[prefix], write[prefix+"-Aws-Kms-Key-Id"] = "aws:kms", kmsKeyID
	}
	if customerKey != "" {
		sum := md5.Sum([]byte(customerKey))
		all[prefix+"-Customer-Algorithm"] = "AES256"
		all[prefix+"-Customer-Key"] = base64.StdEncoding.EncodeToString([]byte(customerKey))
		all[prefix+"-Customer-Key-Md5"] = base64.StdEncoding.EncodeToString(sum[:])
	}
	headers := map[string][]map[string]string{
		"PutObject": {write, all}, "CreateMultipartUpload": {write, all},
		"UploadPart": {all}, "GetObject": {all}, "HeadObject": {all},
	}
	add := func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
		if request, ok := in.Request.(*smithyhttp.Request); ok {
			for _, some := range headers[awsmiddleware.GetOperationName(ctx)] {
				for name, value := range some {
					request.Header.Set(name, value)
				}
			}
		}
		return next.HandleBuild(ctx, in)
	}
	return func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("ServerSideEncryption", add), middleware.After)
	}
}
