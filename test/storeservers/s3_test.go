package storeservers_test

import (
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func TestS3Servers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *storeservers.S3{
		"versitygw": storeservers.StartVersityGW,
		"minio":     storeservers.StartMinIO,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			if one, other := s.Bucket(t), s.Bucket(t); one == other {
				t.Error("two buckets have one name")
			}
		})
	}
}
