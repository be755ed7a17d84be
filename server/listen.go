package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
)

// TLS names the files of a server's certificate. They are read at each handshake,
// so that they can be changed; one that cannot be used leaves the last good ones
// in use.
type TLS struct {
	CertFile, KeyFile string
	// ClientCAFile verifies the certificates of clients. A client without one may
	// still read.
	ClientCAFile string
}

// wrap returns what turns a listener into one with TLS, or leaves it plain.
func (t TLS) wrap(log *slog.Logger) (func(net.Listener) net.Listener, error) {
	if t == (TLS{}) {
		return func(l net.Listener) net.Listener { return l }, nil
	}
	first, err := t.load()
	if err != nil {
		return nil, err
	}
	var good atomic.Pointer[tls.Config]
	good.Store(first)
	outer := &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := t.load()
		if err != nil {
			log.Error("certificates cannot be read again, the last ones stay in use", "error", err)
			return good.Load(), nil
		}
		good.Store(now)
		return now, nil
	}}
	return func(l net.Listener) net.Listener { return tls.NewListener(l, outer) }, nil
}

func (t TLS) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("CA of clients: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA of clients: %s holds no certificate", t.ClientCAFile)
	}
	return c, nil
}

// listenSocket listens on a unix socket that only its owner may open. One that
// nobody listens on any more is replaced.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	const ownerOnly = 0o600
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		return nil, errors.Join(fmt.Errorf("somebody listens on %s already", path), c.Close())
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is no socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, ownerOnly); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
