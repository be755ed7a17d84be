package s3_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// head describes an object as the server sees it.
func head(t *testing.T, s *s3.Store, bucket, name string) *aws.HeadObjectOutput {
	t.Helper()
	out, err := client(t, s).HeadObject(t.Context(), &aws.HeadObjectInput{Bucket: &bucket, Key: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEncryptedByServersKey(t *testing.T) {
	cfg := config(t, storeservers.StartMinIO(t))
	cfg.KMSKeyID = storeservers.KMSKey
	s := open(t, cfg)
	for name, size := range map[string]int64{"small": 10, "parts": partSize + 1} {
		if _, err := s.Create(t.Context(), name, stream(size)); err != nil {
			t.Fatal(err)
		}
		if got := head(t, s, cfg.Bucket, name).SSEKMSKeyId; got == nil || !strings.HasSuffix(*got, storeservers.KMSKey) {
			t.Errorf("%s is encrypted with the key %v", name, got)
		}
	}
	// Here an ETag is no hash of the content.
	created := create(t, s, "a", "one").Version
	swapped, err := s.Swap(t.Context(), "a", created, []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	infos, listErr := s.List(t.Context(), "a")
	data, read, err := s.Read(t.Context(), "a")
	if err != nil || listErr != nil || string(data) != "two" || read != swapped || infos[0].Version != swapped {
		t.Errorf("read %q, %s, %v, listed %v, %v, want version %s", data, read, err, infos, listErr, swapped)
	}
}

func TestEncryptedByOwnKey(t *testing.T) {
	server := storeservers.StartMinIO(t)
	cfg := config(t, server)
	cfg.CustomerKeyFile = filepath.Join(t.TempDir(), "key")
	write(t, filepath.Dir(cfg.CustomerKeyFile), "key", strings.Repeat("k", 32))
	s := open(t, cfg)
	if _, err := s.Create(t.Context(), "parts", stream(3*partSize)); err != nil {
		t.Fatal(err)
	}
	wantStream(t, s, "parts", 3*partSize)
	version, err := s.Swap(t.Context(), "state", "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if version, err = s.Swap(t.Context(), "state", version, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if data, read, err := s.Read(t.Context(), "state"); string(data) != "two" || read != version || err != nil {
		t.Errorf("read %q, %s, %v, want version %s", data, read, err, version)
	}
	cfg.CustomerKeyFile = ""
	if data, _, err := open(t, cfg).Read(t.Context(), "state"); err == nil {
		t.Errorf("without the key it is %q", data)
	}
}

// What Create makes cannot be destroyed, what Swap makes can be replaced.
func TestRetained(t *testing.T) {
	cfg := config(t, storeservers.StartMinIO(t))
	cfg.Bucket, cfg.LockMode, cfg.LockFor = "locked", "GOVERNANCE", 72*time.Hour
	s := open(t, cfg)
	yes := true
	_, err := client(t, s).CreateBucket(t.Context(), &aws.CreateBucketInput{Bucket: &cfg.Bucket, ObjectLockEnabledForBucket: &yes})
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"small": 10, "parts": partSize + 1} {
		if _, err := s.Create(t.Context(), name, stream(size)); err != nil {
			t.Fatal(err)
		}
		out := head(t, s, cfg.Bucket, name)
		if out.ObjectLockMode != types.ObjectLockModeGovernance || time.Until(*out.ObjectLockRetainUntilDate) < 71*time.Hour {
			t.Errorf("%s is retained in mode %q until %v", name, out.ObjectLockMode, out.ObjectLockRetainUntilDate)
		}
	}
	version, err := s.Swap(t.Context(), "state", "", []byte("one"))
	if err == nil {
		_, err = s.Swap(t.Context(), "state", version, []byte("two"))
	}
	if err != nil || head(t, s, cfg.Bucket, "state").ObjectLockMode != "" {
		t.Errorf("the sync object is retained, or cannot be swapped: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]s3.Config{
		"no bucket":           {},
		"a path":              {Bucket: "a/b"},
		"endpoint, no scheme": {Bucket: "b", Endpoint: "minio:9000"},
		"endpoint, a query":   {Bucket: "b", Endpoint: "https://minio?a=b"},
		"two keys":            {Bucket: "b", KMSKeyID: "x", CustomerKeyFile: "y"},
		"lock, no time":       {Bucket: "b", LockMode: "GOVERNANCE"},
		"time, no lock":       {Bucket: "b", LockFor: time.Hour},
		"lock mode":           {Bucket: "b", LockMode: "governance", LockFor: time.Hour},
		"lock in the past":    {Bucket: "b", LockMode: "GOVERNANCE", LockFor: -time.Hour},
		"stall":               {Bucket: "b", Stall: -1},
	} {
		if s, err := s3.New(cfg); err == nil || s != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if s, err := s3.New(s3.Config{Bucket: "b"}); err != nil || s.String() != "s3://b" {
		t.Errorf("%v, %v", s, err)
	}
}
