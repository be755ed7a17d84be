package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Client returns the SDK's client, to look at the bucket with.
func (s *Store) Client(ctx context.Context) (*s3.Client, error) { return s.driver.get(ctx) }
