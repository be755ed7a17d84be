package web

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// TLS names the files of a server's certificate; without any it speaks plain HTTP.
type TLS struct {
	CertFile, KeyFile string
	// ClientCAFile verifies the certificates of clients. A client may do without,
	// see Certificates.Client.
	ClientCAFile string
}

// lookAgain is how long what was read of the files counts as what is in them.
const lookAgain = time.Second

// Certificates are what is in the files of a TLS, or was when that could be used
// last. Nil means plain HTTP.
type Certificates struct {
	// Log and Metrics are told when the files change. Set them before the first use.
	Log     *slog.Logger
	Metrics *Metrics

	files TLS

	mu     sync.Mutex // guards what follows
	looked time.Time
	good   *material
	bad    *content // what could not be used last, nil: what is there is good
}

// content is what is in the files.
type content struct{ cert, key, clientCA []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && bytes.Equal(c.clientCA, d.clientCA)
}

// material is content that can be used.
type material struct {
	content
	config  *tls.Config
	clients *x509.CertPool // nil: no certificate of a client counts
	leaf    *x509.Certificate
}

// Open reads the files. The answer is nil if there are none.
func (t TLS) Open() (*Certificates, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	read, err := t.read()
	if err != nil {
		return nil, err
	}
	m, err := read.parse()
	if err != nil {
		return nil, fmt.Errorf("%w, in %s", err, t)
	}
	return &Certificates{Log: slog.Default(), Metrics: NewMetrics(nil), files: t, good: m, looked: time.Now()}, nil
}

// String names the files.
func (t TLS) String() string {
	s := t.CertFile + " and " + t.KeyFile
	if t.ClientCAFile != "" {
		s += " and " + t.ClientCAFile
	}
	return s
}

func (t TLS) read() (content, error) {
	var c content
	var certErr, keyErr, caErr error
	c.cert, certErr = os.ReadFile(t.CertFile)
	c.key, keyErr = os.ReadFile(t.KeyFile)
	if t.ClientCAFile != "" {
		c.clientCA, caErr = os.ReadFile(t.ClientCAFile)
		if caErr == nil && len(c.clientCA) == 0 {
			caErr = fmt.Errorf("%s is empty", t.ClientCAFile)
		}
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return c, fmt.Errorf("server certificate: %w", err)
	}
	if caErr != nil {
		return c, fmt.Errorf("CA of clients: %w", caErr)
	}
	return c, nil
}

func (c content) parse() (*material, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	m := &material{content: c, leaf: pair.Leaf}
	// A ticket would bring back a client of an authority that has gone.
	m.config = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}
	if len(c.clientCA) == 0 {
		return m, nil
	}
	m.clients = x509.NewCertPool()
	if !m.clients.AppendCertsFromPEM(c.clientCA) {
		return nil, errors.New("CA of clients: no certificate in PEM")
	}
	m.config.ClientCAs, m.config.ClientAuth = m.clients, tls.VerifyClientCertIfGiven
	return m, nil
}

// expired says so if a certificate is not valid at a time.
func (m *material) expired(at time.Time) error {
	if at.Before(m.leaf.NotBefore) || at.After(m.leaf.NotAfter) {
		return fmt.Errorf("server certificate: it is valid from %s to %s only",
			m.leaf.NotBefore.UTC().Format(time.RFC3339), m.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Over returns l with TLS.
func (c *Certificates) Over(l net.Listener) net.Listener {
	if c == nil {
		return l
	}
	c.mu.Lock()
	c.Metrics.certificate(c.good.leaf.NotAfter)
	c.mu.Unlock()
	return tls.NewListener(l, &tls.Config{
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true,
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now().config, nil },
	})
}

// now returns what is in the files, or what was when it could be used last.
func (c *Certificates) now() *material {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now()
	if at.Sub(c.looked).Abs() < lookAgain {
		return c.good
	}
	c.looked = at
	read, err := c.files.read()
	if err == nil && read.equal(c.good.content) {
		c.recovered()
		return c.good
	}
	var next *material
	if err == nil {
		next, err = read.parse()
	}
	if err == nil && c.good.expired(at) == nil { // else nothing is worse than what there is
		err = next.expired(at)
	}
	if err != nil {
		c.refuse(read, err)
		return c.good
	}
	c.good, c.bad = next, nil
	c.Metrics.reloaded(next.leaf.NotAfter)
	c.Log.Info("certificates have changed and are in use", "files", c.files.String(), "valid_until", next.leaf.NotAfter)
	return c.good
}

// refuse tells once of what cannot be used.
func (c *Certificates) refuse(read content, err error) {
	if c.bad != nil && c.bad.equal(read) {
		return
	}
	c.bad = &read
	c.Metrics.refused()
	c.Log.Error("certificates have changed and cannot be used, the last good ones stay in use", "error", err, "files", c.files.String())
}

// recovered tells that the last good ones are in the files again.
func (c *Certificates) recovered() {
	if c.bad == nil {
		return
	}
	c.bad = nil
	c.Metrics.usable()
	c.Log.Info("certificates are as they were before, and in use", "files", c.files.String())
}

// Client returns the certificate that a client has shown and that is trusted now;
// nil: there is none.
func (c *Certificates) Client(state *tls.ConnectionState) *x509.Certificate {
	if c == nil || state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	clients := c.now().clients
	if clients == nil {
		return nil
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: clients, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return nil // it was trusted when it connected
	}
	return leaf
}
