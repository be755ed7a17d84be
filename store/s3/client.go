package s3

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io/fs"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// get returns a client for what is in files now. Only a new one forgets the
// signing key that the SDK derives from a secret and keeps by the id that goes
// with it.
func (d *driver) get(ctx context.Context) (*s3.Client, error) {
	return d.client.Get(d.cfg.material, func(m material) (*s3.Client, error) { return d.cfg.connect(ctx, m) })
}

func (c *Config) connect(ctx context.Context, m material) (*s3.Client, error) {
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
		loaded.HTTPClient = buildable.WithReadTimeout(0).
			WithTransportOptions(func(t *http.Transport) { cloud.Watch(t, c.Stall) }).Freeze()
	}
	return s3.NewFromConfig(loaded, func(o *s3.Options) { c.set(o, m) }), nil
}

func (c *Config) set(o *s3.Options, m material) {
	if m.endpoint != "" {
		o.BaseEndpoint = &m.endpoint
	}
	o.UsePathStyle = c.PathStyle
	// The sums that the SDK adds by itself break other servers. Small objects are
	// protected anyway, their SHA-256 is in the signature; for parts see unsigned.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.Retryer = aws.NopRetryer{} // store.Retry knows what may be repeated, see doc.go
	o.APIOptions = append(o.APIOptions, encryption(c.KMSKeyID, m.customerKey))
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
		return nil, cloud.Fail(fs.ErrPermission, "the CA file holds no certificate in PEM")
	}
	return client.WithTransportOptions(func(t *http.Transport) {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.RootCAs = pool
	}), nil
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
