package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Presets of a Config.
const (
	DefaultPartSize  = 8 << 20
	DefaultParallel  = 4
	DefaultUploadAge = 24 * time.Hour
	DefaultStall     = time.Minute
)

// minPartSize is S3's, for all parts but the last.
const minPartSize = 5 << 20

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

	// PartSize is the size in bytes of the parts that big objects are sent in. It
	// doubles with every thousand parts, so that 10,000 are enough. Create holds
	// Parallel parts in memory.
	PartSize int64
	Parallel int
	// UploadAge is how old an unfinished upload must be before it is taken for
	// that of a writer which crashed, and aborted.
	UploadAge time.Duration
	// Stall is how long a connection may stand still while it is waited for.
	// There is no limit for a call that moves on.
	Stall time.Duration
}

func (c *Config) preset() {
	c.PartSize = cmp.Or(c.PartSize, DefaultPartSize)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.UploadAge = cmp.Or(c.UploadAge, DefaultUploadAge)
	c.Stall = cmp.Or(c.Stall, DefaultStall)
}

// check returns all complaints, joined.
func (c *Config) check() error {
	var errs []error
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Bucket == "" || strings.Contains(c.Bucket, "/"), "bucket %q: want the name of a bucket", c.Bucket)
	complain(c.Endpoint != "" && !validEndpoint(c.Endpoint), "endpoint: want a URL like https://host:port, without user and password")
	complain(c.KMSKeyID != "" && c.CustomerKeyFile != "", "want a key of the server's or one's own, not both")
	complain((c.LockMode == "") != (c.LockFor == 0), "want both a lock mode and a duration, or neither")
	complain(c.LockMode != "" && !validLockMode(c.LockMode), "lock mode %q: want GOVERNANCE or COMPLIANCE", c.LockMode)
	complain(c.LockFor < 0, "lock duration %v: want one above 0", c.LockFor)
	complain(c.PartSize < minPartSize, "part size %d: want %d bytes or more", c.PartSize, minPartSize)
	complain(c.Parallel < 1 || c.UploadAge < 0 || c.Stall < 0, "want at least one part at once, and no negative times")
	return errors.Join(errs...)
}

func validLockMode(mode string) bool {
	return mode == string(types.ObjectLockModeGovernance) || mode == string(types.ObjectLockModeCompliance)
}

// validEndpoint is strict so that no secret passes for a part of the URL: it is
// in the texts of errors.
func validEndpoint(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
