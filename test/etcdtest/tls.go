package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/certs"
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
	ca := certs.New(t)
	serverCert, serverKey := ca.Pair(t, "localhost", time.Hour)
	clientCert, clientKey := ca.Pair(t, "client", time.Hour)
	certs.Write(t, map[string][]byte{
		files.CAFile: ca.PEM(), files.CertFile: clientCert, files.KeyFile: clientKey,
		files.serverCertFile: serverCert, files.serverKeyFile: serverKey,
	})
	return files
}

// Secret writes one certificate for members and clients alike, named as Kubernetes
// names the files of a Secret with a certificate, and returns the client's side.
func Secret(t testing.TB, dir string) *TLS {
	t.Helper()
	path := func(name string) string { return filepath.Join(dir, name) }
	files := &TLS{CAFile: path("ca.crt"), CertFile: path("tls.crt"), KeyFile: path("tls.key")}
	ca := certs.New(t)
	cert, key := ca.Pair(t, "localhost", time.Hour)
	certs.Write(t, map[string][]byte{files.CAFile: ca.PEM(), files.CertFile: cert, files.KeyFile: key})
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
