package server

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Access says who may change something. With neither a token nor names, callers on
// the same machine may, and only they. The unix socket is open to whoever may
// open its file.
type Access struct {
	// TokenFile holds the bearer token. It is read at each call, so that it can be
	// changed.
	TokenFile string
	// Names are those that a verified client certificate must have one of, as
	// subject alternative name: DNS names, e-mail addresses, URIs or IP addresses.
	Names []string
}

var (
	errNoCredentials = errors.New("this needs a bearer token or a client certificate")
	errBadToken      = errors.New("the bearer token is not the right one")
	errForbidden     = errors.New("the client certificate has none of the allowed names")
	errNotLocal      = errors.New("only callers on the same machine may do this")
)

// caller tells in a request's context that it came through the unix socket.
type caller struct{}

// viaSocket marks what comes through a unix socket, for http.Server.ConnContext.
func viaSocket(ctx context.Context, c net.Conn) context.Context {
	if c.LocalAddr().Network() == "unix" {
		return context.WithValue(ctx, caller{}, true)
	}
	return ctx
}

func throughSocket(r *http.Request) bool { return r.Context().Value(caller{}) != nil }

// isLocal reports whether the peer is on this machine.
func isLocal(r *http.Request) bool {
	if throughSocket(r) {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// authorize returns who calls, for the audit, and why that is not enough. Cert is
// the client's, if it is trusted.
func (a Access) authorize(r *http.Request, cert *x509.Certificate) (who string, err error) {
	switch {
	case throughSocket(r):
		return "socket", nil
	case a.TokenFile == "" && len(a.Names) == 0:
		if !isLocal(r) {
			return "", errNotLocal
		}
		return "local", nil
	}
	certErr := errNoCredentials
	if cert != nil && len(a.Names) > 0 {
		who, certErr = a.named(cert)
		if certErr == nil {
			return who, nil
		}
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || a.TokenFile == "" {
		return "", certErr
	}
	return "token", a.check(token)
}

func (a Access) named(cert *x509.Certificate) (string, error) {
	has := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, u := range cert.URIs {
		has = append(has, u.String())
	}
	for _, ip := range cert.IPAddresses {
		has = append(has, ip.String())
	}
	for _, name := range has {
		if slices.Contains(a.Names, name) {
			return name, nil
		}
	}
	return "", errForbidden
}

func (a Access) check(token string) error {
	want, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return fmt.Errorf("the token file: %w", err)
	}
	right := strings.TrimSpace(string(want))
	if right == "" {
		return errors.New("the token file is empty")
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(right)) != 1 {
		return errBadToken
	}
	return nil
}

// guard lets only those pass who may change something, and writes one audit line
// about each call.
func (d *Daemon) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := d.Access.authorize(r, d.certificates.Client(r.TLS))
		d.audit(r, who, err == nil)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, errForbidden), errors.Is(err, errNotLocal):
			fail(w, http.StatusForbidden, "forbidden", err)
		case errors.Is(err, errNoCredentials), errors.Is(err, errBadToken):
			w.Header().Set("WWW-Authenticate", `Bearer realm="etcd-ferry"`)
			fail(w, http.StatusUnauthorized, "unauthorized", err)
		default: // the token file; what it says is not for the caller
			d.Log.Error("caller cannot be checked", "error", err)
			fail(w, http.StatusServiceUnavailable, "no_token", errors.New("the token cannot be checked now"))
		}
	})
}

func (d *Daemon) audit(r *http.Request, who string, allowed bool) {
	d.Log.Info("audit", "method", r.Method, "path", r.URL.Path, "peer", r.RemoteAddr, "caller", who, "allowed", allowed)
}
