// Package certs makes certificates for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority that has signed itself.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	der, key := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test " + rand.Text()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, time.Hour)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.Cert, a.key = cert, key
	return a
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return block("CERTIFICATE", a.Cert.Raw) }

func (a *Authority) sign(t testing.TB, c *x509.Certificate, valid time.Duration) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = new(big.Int).SetBytes([]byte(rand.Text()))
	c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(valid)
	parent, signer := a.Cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// Pair returns a certificate and its key in PEM, for a server on loopback and for a
// client, with a name. It has been valid for two hours, and is for so long.
func (a *Authority) Pair(t testing.TB, name string, valid time.Duration) (cert, key []byte) {
	t.Helper()
	der, private := a.sign(t, &x509.Certificate{
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, valid)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", secret)
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Client returns what a client needs that trusts the servers of some authorities and,
// unless name is empty, shows a certificate of a, whoever is asked for.
func (a *Authority) Client(t testing.TB, name string, trusted ...*Authority) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	for _, other := range trusted {
		config.RootCAs.AddCert(other.Cert)
	}
	if name == "" {
		return config
	}
	cert, key := a.Pair(t, name, time.Hour)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config
}

// Write puts files in place, each at once and whole.
func Write(t testing.TB, files map[string][]byte) {
	t.Helper()
	for path, data := range files {
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}
