package etcdtest

import (
	"crypto"
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
	"path/filepath"
	"testing"
	"time"
)

// TLS holds the paths of the PEM files that a client needs.
type TLS struct {
	CAFile   string
	CertFile string
	KeyFile  string

	serverCertFile string
	serverKeyFile  string
}

// newTLS makes a certificate authority and what it signs for server and client.
func newTLS(t testing.TB) *TLS {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	files := &TLS{
		CAFile: path("ca.pem"), CertFile: path("client.pem"), KeyFile: path("client-key.pem"),
		serverCertFile: path("server.pem"), serverKeyFile: path("server-key.pem"),
	}
	ca := newAuthority(t)
	writePEM(t, files.CAFile, "CERTIFICATE", ca.cert.Raw)
	// etcd's HTTP gateway connects to etcd itself with the server certificate.
	ca.issue(t, files.serverCertFile, files.serverKeyFile, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	ca.issue(t, files.CertFile, files.KeyFile, x509.ExtKeyUsageClientAuth)
	return files
}

// Secret writes one certificate for members and clients alike, named as Kubernetes
// names the files of a Secret with a certificate, and returns the client's side.
func Secret(t testing.TB, dir string) *TLS {
	t.Helper()
	path := func(name string) string { return filepath.Join(dir, name) }
	files := &TLS{CAFile: path("ca.crt"), CertFile: path("tls.crt"), KeyFile: path("tls.key")}
	ca := newAuthority(t)
	writePEM(t, files.CAFile, "CERTIFICATE", ca.cert.Raw)
	ca.issue(t, files.CertFile, files.KeyFile, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	return files
}

// args are the flags of etcd; none without TLS.
func (f *TLS) args() []string {
	if f == nil {
		return nil
	}
	return []string{
		"--trusted-ca-file=" + f.CAFile, "--client-cert-auth",
		"--cert-file=" + f.serverCertFile, "--key-file=" + f.serverKeyFile,
	}
}

// Config is the client's side; nil without TLS.
func (f *TLS) Config(t testing.TB) *tls.Config {
	t.Helper()
	if f == nil {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(f.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	template := certificate("etcdtest CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// issue writes a certificate and its key. It has no common name, because etcd
// would take that for the name of a user.
func (a authority) issue(t testing.TB, certFile, keyFile string, usage ...x509.ExtKeyUsage) {
	t.Helper()
	template := certificate("")
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, usage
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", keyDER)
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes([]byte(rand.Text())),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
}
