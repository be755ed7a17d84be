package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// DefaultTimeout bounds one request that etcd should answer at once.
	DefaultTimeout = 5 * time.Second
	// A connection that is silent for keepAliveTime is asked for a sign of life,
	// and given up keepAliveTimeout later. etcd refuses to be asked more often
	// than every 5 s.
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 5 * time.Second
)

// reconnect finds an etcd soon after a restart, however long it was away; gRPC
// would wait up to two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: DefaultTimeout,
}

// Config says how to reach an etcd. Files are read when the Client is made, those of
// TLS again at each connection.
type Config struct {
	Endpoints []string // URLs or host:port; tried in order
	CAFile    string   // PEM; empty: the system's roots
	CertFile  string   // PEM, with KeyFile: the client certificate
	KeyFile   string
	UserFile  string // one line "user:password"
	// Metrics are told what the member of the first endpoint says of its database
	// whenever it is asked for its Status; nil: nobody is.
	Metrics *Metrics
	// Log is told of files that cannot be read again; nil: nobody is.
	Log *slog.Logger
}

// clientConfig reads the files of c.
func (c Config) clientConfig() (clientv3.Config, error) {
	if len(c.Endpoints) == 0 {
		return clientv3.Config{}, errors.New("no etcd endpoint: name at least one with --etcd-endpoints")
	}
	user, password, err := c.user()
	if err != nil {
		return clientv3.Config{}, err
	}
	options := []grpc.DialOption{grpc.WithConnectParams(reconnect)}
	if c.secure() || c.named() {
		rotated, err := newRotated(c)
		if err != nil {
			return clientv3.Config{}, err
		}
		if c.secure() {
			options = append(options, grpc.WithTransportCredentials(rotated))
		}
	}
	return clientv3.Config{
		Username:             user,
		Password:             password,
		DialTimeout:          DefaultTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:          options,
		Logger:               zap.NewNop(), // what matters comes back as an error
	}, nil
}

func (c Config) user() (name, password string, err error) {
	if c.UserFile == "" {
		return "", "", nil
	}
	line, err := os.ReadFile(c.UserFile)
	if err != nil {
		return "", "", fmt.Errorf("etcd user: %w", err)
	}
	name, password, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
	if !ok || name == "" {
		return "", "", fmt.Errorf("etcd user: %s does not hold one line of the form user:password", c.UserFile)
	}
	return name, password, nil
}
