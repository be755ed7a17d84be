package robust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/test/certs"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const (
	// What startSidecar gives as lease, time for a read, and poll period.
	leaseGiven, readGiven, pollGiven = 40 * time.Second, 3 * time.Second, 200 * time.Millisecond
	// filled is what etcd holds: that of several rounds of parts, which take seconds on the line.
	filled        = 48 << 20
	kilobytesEach = 2000 // a second, of each connection
)

// material is what a sidecar is configured with, in files.
type material struct {
	t     *testing.T
	dir   string
	store string // folder
}

func (m *material) path(name string) string { return filepath.Join(m.dir, name) }

func (m *material) put(name string, data []byte) {
	m.t.Helper()
	certs.Write(m.t, map[string][]byte{m.path(name): data})
}

// pair puts a certificate and its key in place.
func (m *material) pair(name string, by *certs.Authority) {
	m.t.Helper()
	cert, key := by.Pair(m.t, "localhost", time.Hour)
	certs.Write(m.t, map[string][]byte{m.path(name + ".pem"): cert, m.path(name + "-key.pem"): key})
}

// secret puts the keys of a user of the store in place.
func (m *material) secret(id, key string) {
	m.t.Helper()
	certs.Write(m.t, map[string][]byte{
		filepath.Join(m.store, "accessKeyID"): []byte(id), filepath.Join(m.store, "secretAccessKey"): []byte(key),
	})
}

// TestRow47Rotation: in the middle of an upload and of polls the store's credential,
// the server's certificate, the CA of clients, the token, and then the certificates of
// etcd change, each after something that cannot be used was there. No backup fails, no
// read of the sync object fails, and the lease is always as fresh as a poll makes it.
func TestRow47Rotation(t *testing.T) {
	one, two := certs.New(t), certs.New(t)
	e := etcdtest.Start(t, etcdtest.WithTLS())
	toEtcd := rotateEtcd(t, e, one, two)
	e.Fill(t, filled>>15, 32<<10)
	gateway := storeservers.StartVersityGWWithUsers(t)
	gateway.MakeUser(t, "first-user", "first-secret")
	bucket, toxi := gateway.Bucket(t), storeservers.StartToxiproxy(t)
	toStore, line := toxi.Line(t, gateway.URL), toxi.Line(t, e.Endpoint())
	m := &material{t: t, dir: t.TempDir(), store: gateway.Credentials(t)}
	m.secret("first-user", "first-secret")
	m.pair("server", one)
	m.pair("etcd", one)
	m.put("clients.pem", one.PEM())
	m.put("etcd-ca.pem", one.PEM())
	m.put("token", []byte("first-token\n"))
	s := startSidecar(t, e, one.Client(t, "", one, two),
		"--store=s3://"+bucket+"/a?pathStyle=true&endpoint="+toStore.URL, "--store-credentials="+m.store, "--delta-period=500ms",
		"--etcd-endpoints="+line.URL, "--etcd-cacert="+m.path("etcd-ca.pem"), "--etcd-cert="+m.path("etcd.pem"), "--etcd-key="+m.path("etcd-key.pem"),
		"--tls-cert="+m.path("server.pem"), "--tls-key="+m.path("server-key.pem"), "--tls-client-ca="+m.path("clients.pem"),
		"--tls-allowed-san=flow.example", "--auth-token-file="+m.path("token"))
	s.until("the first full is stored", func() bool { return s.value(`etcd_ferry_snapshots_total{kind="full",result="ok"}`) == 1 })
	s.until("the lease is told", func() bool { return s.value("etcd_ferry_lease_remaining_seconds") > 0 })
	watched := s.watchLease()

	heal := toxi.Suffer(t, toStore, storeservers.Toxic{Type: "bandwidth", Stream: "upstream", Attributes: map[string]int64{"rate": kilobytesEach}})
	var upload errgroup.Group
	began := time.Now()
	upload.Go(func() error {
		if status, text := s.ask(http.MethodPost, "/snapshot/full", "first-token", nil); status != http.StatusOK {
			return fmt.Errorf("the full that was on its way: %d %s", status, text)
		}
		return nil
	})
	time.Sleep(time.Second) //nolint:forbidigo // it is on its way now
	m.secret("first-user", "two\nlines")
	time.Sleep(time.Second) //nolint:forbidigo // and what cannot be used is used meanwhile
	gateway.MakeUser(t, "second-user", "second-secret")
	m.secret("second-user", "second-secret")
	gateway.RemoveUser(t, "first-user")
	s.rotateServer(m, one, two)
	s.rotateToken(m)
	if time.Since(began) > 30*time.Second {
		t.Log("the machine is slow: the upload may have ended before all was rotated")
	}
	if err := upload.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("the upload took %v", time.Since(began))
	heal()
	for _, kind := range []string{"full", "delta"} {
		if n := s.value(`etcd_ferry_snapshots_total{kind="` + kind + `",result="error"}`); n != 0 {
			t.Errorf("%v times a %s failed", n, kind)
		}
	}

	// A connection that is open stays as it is; a new one needs what is in the files.
	m.put("etcd-ca.pem", []byte("-----BEGIN CERT"))
	m.put("etcd-key.pem", nil)
	cut(t, toxi, line)
	s.stores(e, "with certificates for etcd that cannot be used")
	m.pair("etcd", two)
	m.put("etcd-ca.pem", two.PEM())
	toEtcd(two)
	cut(t, toxi, line)
	s.stores(e, "with new certificates for etcd and of etcd")
	s.noReadFailed()
	watched(t)
}

// rotateEtcd gives an etcd clients of two authorities, and a certificate of the first.
// What it returns gives it one of another, which it shows to whoever comes then.
func rotateEtcd(t *testing.T, e *etcdtest.Etcd, one, two *certs.Authority) (show func(*certs.Authority)) {
	t.Helper()
	dir := filepath.Dir(e.TLS.CAFile)
	show = func(a *certs.Authority) {
		t.Helper()
		cert, key := a.Pair(t, "localhost", time.Hour)
		certs.Write(t, map[string][]byte{filepath.Join(dir, "server.pem"): cert, filepath.Join(dir, "server-key.pem"): key})
	}
	cert, key := one.Pair(t, "", time.Hour)
	certs.Write(t, map[string][]byte{
		e.TLS.CAFile: append(one.PEM(), two.PEM()...), e.TLS.CertFile: cert, e.TLS.KeyFile: key,
	})
	show(one)
	e.Stop(t)
	e.Restart(t)
	return show
}

// cut ends all connections on a line.
func cut(t *testing.T, toxi *storeservers.Toxiproxy, line *storeservers.Line) {
	t.Helper()
	toxi.SufferFor(t, 300*time.Millisecond, line,
		storeservers.Toxic{Type: "reset_peer", Stream: "upstream"}, storeservers.Toxic{Type: "reset_peer"})
}

// stores wants a delta of what is written now to be stored.
func (s *sidecar) stores(e *etcdtest.Etcd, what string) {
	s.t.Helper()
	revision := float64(e.Fill(s.t, 10, 100))
	s.until("a delta is stored "+what, func() bool {
		return s.value(`etcd_ferry_snapshot_last_revision{kind="delta"}`) >= revision
	})
}

// rotateServer changes certificate, key and CA of clients.
func (s *sidecar) rotateServer(m *material, one, two *certs.Authority) {
	s.t.Helper()
	m.put("server.pem", []byte("-----BEGIN CERTIFICATE-----\nhalf"))
	s.until("it says that the certificate cannot be used", func() bool { return s.value("etcd_ferry_http_certificate_unusable") == 1 })
	if shown := s.shownBy(one, two); shown != one {
		s.t.Error("what cannot be used is shown")
	}
	m.pair("server", two)
	m.put("clients.pem", two.PEM())
	s.until("the new certificate is shown", func() bool { return s.shownBy(one, two) == two })
	s.until("it says that all is well", func() bool { return s.value("etcd_ferry_http_certificate_unusable") == 0 })
	initiate := func(a *certs.Authority) int {
		web := s.web
		defer func() { s.web = web }()
		s.web = &http.Client{Transport: &http.Transport{TLSClientConfig: a.Client(s.t, "flow.example", one, two), DisableKeepAlives: true}}
		status, _ := s.ask(http.MethodPost, "/snapshot/delta", "", nil)
		return status
	}
	if status := initiate(two); status != http.StatusOK && status != http.StatusNoContent {
		s.t.Errorf("a client of the new CA is answered %d", status)
	}
	if status := initiate(one); status != 0 {
		s.t.Errorf("a client of the old CA is answered %d", status)
	}
}

// shownBy returns the authority of the certificate that a new connection is shown.
func (s *sidecar) shownBy(all ...*certs.Authority) *certs.Authority {
	s.t.Helper()
	d := tls.Dialer{Config: all[0].Client(s.t, "", all...)}
	conn, err := d.DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	for _, a := range all {
		roots := x509.NewCertPool()
		roots.AddCert(a.Cert)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
			return a
		}
	}
	return nil
}

func (s *sidecar) rotateToken(m *material) {
	s.t.Helper()
	wants := func(token string, statuses ...int) {
		s.t.Helper()
		status, text := s.ask(http.MethodPost, "/snapshot/delta", token, nil)
		if !slices.Contains(statuses, status) {
			s.t.Errorf("with %s: %d %s, want %d", token, status, text, statuses)
		}
	}
	wants("first-token", http.StatusOK, http.StatusNoContent)
	m.put("token", nil)
	wants("first-token", http.StatusServiceUnavailable) // whoever empties it wants nobody to be let in
	m.put("token", []byte("second-token"))
	wants("first-token", http.StatusUnauthorized)
	wants("second-token", http.StatusOK, http.StatusNoContent)
}

// watchLease looks at the lease until the function is called that it returns, which
// wants it never to have been older than a read and two polls.
func (s *sidecar) watchLease() (judge func(*testing.T)) {
	ctx, stop := context.WithCancel(s.t.Context())
	lowest, looks := leaseGiven.Seconds(), 0
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if left, err := s.metric("etcd_ferry_lease_remaining_seconds"); err == nil {
				lowest, looks = min(lowest, left), looks+1
			} else if ctx.Err() == nil {
				s.t.Error(err)
			}
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // other processes have no virtual time
		}
	})
	s.t.Cleanup(func() { stop(); done.Wait() })
	return func(t *testing.T) {
		t.Helper()
		stop()
		done.Wait()
		const tick = time.Second // how often the metric is set
		least := (leaseGiven - readGiven - 2*pollGiven - tick).Seconds()
		t.Logf("of a lease of %v at least %.1f s were left, in %d looks", leaseGiven, lowest, looks)
		if lowest < least || looks < 50 {
			t.Errorf("in %d looks only %.1f s of the lease were left, want %.1f s", looks, lowest, least)
		}
	}
}
