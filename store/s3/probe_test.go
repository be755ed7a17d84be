package s3_test

import (
	"testing"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// Object Lock binds versions, so that a bucket which retains every object is fit
// for swaps nevertheless.
func TestProbeOfABucketWithRetention(t *testing.T) {
	cfg := config(t, storeservers.StartMinIO(t))
	cfg.Bucket = "locked"
	s := open(t, cfg)
	yes, day := true, int32(1)
	c := client(t, s)
	if _, err := c.CreateBucket(t.Context(), &aws.CreateBucketInput{Bucket: &cfg.Bucket, ObjectLockEnabledForBucket: &yes}); err != nil {
		t.Fatal(err)
	}
	_, err := c.PutObjectLockConfiguration(t.Context(), &aws.PutObjectLockConfigurationInput{
		Bucket: &cfg.Bucket,
		ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule:              &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{Mode: types.ObjectLockRetentionModeCompliance, Days: &day}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := store.Probe(t.Context(), s); err != nil || report.Left != nil {
		t.Errorf("the probe found %+v, %v", report, err)
	}
	// The lock is real: what was swapped out is there, and stays.
	versions, err := c.ListObjectVersions(t.Context(), &aws.ListObjectVersionsInput{Bucket: &cfg.Bucket})
	if err != nil || len(versions.Versions) != 2 {
		t.Fatalf("the bucket holds %+v, %v, want what was created and what was swapped in", versions, err)
	}
	old := versions.Versions[0]
	if _, err := c.DeleteObject(t.Context(), &aws.DeleteObjectInput{Bucket: &cfg.Bucket, Key: old.Key, VersionId: old.VersionId}); err == nil {
		t.Error("a retained version was removed")
	}
}
