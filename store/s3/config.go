package s3

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// DefaultUploadAge is the preset of Config.UploadAge.
const DefaultUploadAge = 24 * time.Hour

// Config says which bucket, and how to get at it. Only Bucket is required. It
// holds no secrets, only where they are.
type Config struct {
	Bucket string
	// Endpoint is the URL of a server other than Amazon's.
	Endpoint string
	// Region is us-east-1 if nothing else says which.
	Region string
	// PathStyle puts the bucket into the path of URLs instead of the host name,
	// as most servers other than Amazon's need it.
	PathStyle bool
	// CAFile holds PEM certificates to trust besides the system's.
	CAFile string
	// CredentialsDir is a mounted Secret: the files accessKeyID and
	// secretAccessKey, and if need be sessionToken, region and endpoint; of the
	// last two the fields above win. Empty means the SDK's default chain.
	CredentialsDir string

	// KMSKeyID has the server encrypt with that key of its key management.
	KMSKeyID string
	// CustomerKeyFile has the server encrypt with the key in that file, 32 bytes.
	// Nothing can be read without it.
	CustomerKeyFile string

	// LockMode, GOVERNANCE or COMPLIANCE, and LockFor retain what Create writes.
	// What Swap writes is never retained.
	LockMode string
	LockFor  time.Duration

	// For what follows 0 is the preset.

	// UploadAge is how old an unfinished upload must be before it is taken for
	// that of a writer which crashed, and aborted.
	UploadAge time.Duration
	// Stall is how long a connection may stand still while it is waited for.
	// There is no limit for a call that moves on.
	Stall time.Duration
}

func (c *Config) preset() {
	c.UploadAge = cmp.Or(c.UploadAge, DefaultUploadAge)
	c.Stall = cmp.Or(c.Stall, cloud.DefaultStall)
}

// check returns all complaints, joined.
func (c *Config) check() error {
	errs := []error{cloud.CheckContainer("bucket", c.Bucket)}
	if c.Endpoint != "" {
		errs = append(errs, cloud.CheckEndpoint(c.Endpoint))
	}
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.KMSKeyID != "" && c.CustomerKeyFile != "", "want a key of the server's or one's own, not both")
	complain((c.LockMode == "") != (c.LockFor == 0), "want both a lock mode and a duration, or neither")
	complain(c.LockMode != "" && !validLockMode(c.LockMode), "lock mode %q: want GOVERNANCE or COMPLIANCE", c.LockMode)
	complain(c.LockFor < 0, "lock duration %v: want one above 0", c.LockFor)
	complain(c.UploadAge < 0 || c.Stall < 0, "want no negative times")
	return errors.Join(errs...)
}

func validLockMode(mode string) bool {
	return mode == string(types.ObjectLockModeGovernance) || mode == string(types.ObjectLockModeCompliance)
}

// material is what is in files and makes a client.
type material struct {
	accessKeyID, secretAccessKey, sessionToken, region, endpoint string
	ca, customerKey                                              string
}

// material reads the files that the configuration names.
func (c *Config) material() (m material, err error) {
	if c.CredentialsDir != "" {
		if err := cloud.ReadSecret(c.CredentialsDir, map[string]*string{
			"accessKeyID": &m.accessKeyID, "secretAccessKey": &m.secretAccessKey,
			"sessionToken": &m.sessionToken, "region": &m.region, "endpoint": &m.endpoint,
		}); err != nil {
			return m, err
		}
		if err := m.checkSecret(); err != nil {
			return m, cloud.NoCredentials(c.CredentialsDir + ": " + err.Error())
		}
	}
	m.endpoint, m.region = cmp.Or(c.Endpoint, m.endpoint), cmp.Or(c.Region, m.region)
	for path, content := range map[string]*string{c.CAFile: &m.ca, c.CustomerKeyFile: &m.customerKey} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil { // not an absent object
			return m, cloud.Fail(fs.ErrPermission, err.Error())
		}
		*content = string(data)
	}
	if n := len(m.customerKey); c.CustomerKeyFile != "" && n != 32 {
		return m, cloud.Fail(fs.ErrPermission, fmt.Sprintf("%s holds %d bytes, a key has 32", c.CustomerKeyFile, n))
	}
	return m, nil
}

// checkSecret complains about what is in files, without showing it.
func (m *material) checkSecret() error {
	if m.accessKeyID == "" || m.secretAccessKey == "" {
		return errors.New("want the files accessKeyID and secretAccessKey")
	}
	for _, value := range []string{m.accessKeyID, m.secretAccessKey, m.sessionToken, m.region, m.endpoint} {
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("want one word in each file")
		}
	}
	if m.endpoint == "" {
		return nil
	}
	return cloud.CheckEndpoint(m.endpoint)
}
