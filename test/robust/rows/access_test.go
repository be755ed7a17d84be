package rows

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// TestRow08WhoMayInitiate: what is not allowed changes nothing, and leaves one
// line in the audit.
func TestRow08WhoMayInitiate(t *testing.T) {
	t.Parallel()
	in, dir := newFolder(t), t.TempDir()
	ca := newAuthority(t)
	ca.issue(t, dir, "server", "localhost")
	token := filepath.Join(dir, "token")
	write(t, token, []byte("right\n"))
	write(t, filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	address := freeAddress(t)
	sidecar := begin(t, slices.Concat([]string{
		"server", "--owner-id=a", "--data-dir", filepath.Join(dir, "etcd"), "--listen", address,
		"--tls-cert", dir + "/server.pem", "--tls-key", dir + "/server-key.pem", "--tls-client-ca", dir + "/ca.pem",
		"--tls-allowed-san=flow.example", "--auth-token-file", token,
	}, in.flags("store"), calm.sidecar)...)
	url := "https://localhost:" + address[strings.LastIndexByte(address, ':')+1:]
	call := func(as *http.Client, method, bearer string) (int, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/copyop/initiate", nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		answer, err := as.Do(r)
		if err != nil {
			return 0, nil
		}
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Header
	}
	nobody := ca.client(t)
	eventually(t, "a listener", func() bool { return strings.Contains(sidecar.stderr.String(), "msg=serving") })
	eventually(t, "the owner", func() bool { return exists(filepath.Join(dir, "etcd.ferry", "election.json")) })
	audited := func() int { return strings.Count(sidecar.stderr.String(), "msg=audit") }
	refusals := []struct {
		as             *http.Client
		method, bearer string
		status         int
	}{
		{nobody, http.MethodGet, "", http.StatusMethodNotAllowed},
		{nobody, http.MethodHead, "right", http.StatusMethodNotAllowed},
		{nobody, http.MethodPost, "", http.StatusUnauthorized},
		{nobody, http.MethodPost, "wrong", http.StatusUnauthorized},
		{ca.client(t, "other.example"), http.MethodPost, "", http.StatusForbidden},
		{newAuthority(t).trusting(ca).client(t, "flow.example"), http.MethodPost, "", 0}, // no handshake
	}
	lines := audited()
	for i, r := range refusals {
		status, header := call(r.as, r.method, r.bearer)
		if status != r.status || status == http.StatusMethodNotAllowed && header.Get("Allow") != http.MethodPost {
			t.Errorf("%d: %s %q is answered %d %v, want %d", i, r.method, r.bearer, status, header, r.status)
		}
		if status != 0 {
			lines++
		}
		eventually(t, "the audit", func() bool { return audited() >= lines })
	}
	if n := audited(); n != lines {
		t.Errorf("%d lines in the audit, want %d", n, lines)
	}
	if _, err := syncobject.NewFile(in.direct).Read(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after nothing but refusals: %v, want %v", err, fs.ErrNotExist)
	}
	eventually(t, "the right name is let in", func() bool {
		status, _ := call(ca.client(t, "flow.example"), http.MethodPost, "")
		return status == http.StatusCreated
	})
	if status, _ := call(nobody, http.MethodPost, "right"); status != http.StatusOK && status != http.StatusConflict {
		t.Errorf("by token: %d", status)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority signs certificates.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool // of its clients
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{roots: x509.NewCertPool()}
	der, key := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	a.roots.AddCert(cert)
	return a
}

// trusting makes the clients of a accept the servers of b.
func (a *authority) trusting(b *authority) *authority {
	a.roots = b.roots
	return a
}

// sign completes a certificate and signs it; the first one signs itself.
func (a *authority) sign(t *testing.T, c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue writes the certificate of a server, and its key.
func (a *authority) issue(t *testing.T, dir, name string, hosts ...string) {
	t.Helper()
	der, key := a.sign(t, &x509.Certificate{DNSNames: hosts, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, name+"-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// client shows a certificate with these names; without names it has none.
func (a *authority) client(t *testing.T, names ...string) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12}
	if len(names) > 0 {
		der, key := a.sign(t, &x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil // whoever is asked for
		}
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}
