package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// secure reports whether connections are made with TLS: as the first endpoint says,
// or if it does not, if there are files for it.
func (c Config) secure() bool {
	scheme, _, told := strings.Cut(c.Endpoints[0], "://")
	if told {
		return scheme == "https" || scheme == "unixs"
	}
	return c.named()
}

// named reports whether there are files for TLS.
func (c Config) named() bool { return c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" }

// tls reads the files.
func (c Config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA: no certificate in %s", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("etcd client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// rotated are credentials that read the files of a Config again at each
// connection; if those cannot be used, the last good ones are.
type rotated struct {
	credentials.TransportCredentials // made of what was good at first

	config Config
	good   *atomic.Pointer[tls.Config]
}

func newRotated(c Config) (*rotated, error) {
	first, err := c.tls()
	if err != nil {
		return nil, err
	}
	r := &rotated{TransportCredentials: credentials.NewTLS(first), config: c, good: new(atomic.Pointer[tls.Config])}
	r.good.Store(first)
	return r, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *rotated) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if now, err := r.config.tls(); err == nil {
		r.good.Store(now)
	} else if r.config.Log != nil {
		r.config.Log.Error("certificates for etcd cannot be read again, the last ones stay in use", "error", err)
	}
	return credentials.NewTLS(r.good.Load()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r *rotated) Clone() credentials.TransportCredentials {
	return &rotated{TransportCredentials: r.TransportCredentials.Clone(), config: r.config, good: r.good}
}
