package s3

import (
	"context"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Client returns the SDK's client, to look at the bucket with.
func (s *Store) Client(ctx context.Context) (*s3.Client, error) { return s.connection.get(ctx) }

// Watch returns conn, failing when it stalls.
func Watch(conn net.Conn, stall time.Duration) net.Conn { return &watchedConn{conn, stall} }
