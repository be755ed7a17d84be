package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	remoteTimeout = time.Minute
	maxReply      = 1 << 20 // bytes
)

var (
	errConflict    = errors.New("the server refuses")
	errUnreachable = errors.New("the server could not be asked")
)

// remoteFlags say how to reach the server of a source.
type remoteFlags struct {
	server, tokenFile, ca, cert, key string
}

func (f *remoteFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.server, "server", "http://127.0.0.1:8080", "`address` of the source's server: http://…, https://… or unix:///PATH")
	fs.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer token")
	fs.StringVar(&f.ca, "cacert", "", "`file` with the CA of the server's certificate; default: the system's")
	fs.StringVar(&f.cert, "cert", "", "`file` with the client's certificate")
	fs.StringVar(&f.key, "key", "", "`file` with its key")
}

func (f *remoteFlags) check() error {
	u, err := url.Parse(f.server)
	switch {
	case err != nil, u.Scheme != "unix" && u.Host == "", u.Scheme == "unix" && (u.Host != "" || u.Path == ""),
		u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix":
		return fmt.Errorf("--server %q: want http://HOST:PORT, https://HOST:PORT or unix:///PATH", f.server)
	case (f.cert == "") != (f.key == ""):
		return errors.New("--cert and --key go together")
	case f.tokenFile != "" && u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("--server %q: the token would go over the network for everybody to read: use https", f.server)
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// remote is a server that can be called.
type remote struct {
	client *http.Client
	base   *url.URL
	token  string
}

func (f *remoteFlags) open() (*remote, error) {
	base, err := url.Parse(f.server)
	if err != nil {
		return nil, err
	}
	r := &remote{base: base}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if base.Scheme == "unix" {
		path := base.Path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		r.base = &url.URL{Scheme: "http", Host: "server"}
	}
	r.client = &http.Client{Transport: transport, Timeout: remoteTimeout}
	return r, errors.Join(f.trust(transport.TLSClientConfig), r.authenticate(f.tokenFile))
}

func (f *remoteFlags) trust(c *tls.Config) error {
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--cacert %s holds no certificate", f.ca)
		}
	}
	if f.cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	c.Certificates = []tls.Certificate{pair}
	return err
}

func (r *remote) authenticate(tokenFile string) error {
	if tokenFile == "" {
		return nil
	}
	token, err := os.ReadFile(tokenFile)
	r.token = strings.TrimSpace(string(token))
	return err
}

// call decodes the answer into v. An error that the server explains is an error;
// a 503 that has the usual body is none, its status is returned.
func (r *remote) call(ctx context.Context, method, path string, body, v any) (int, error) {
	request, err := r.request(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%w: %w: does it run, and is --server what it has as --listen?", errUnreachable, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if err := complaint(response.StatusCode, content); err != nil {
		return 0, err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return 0, fmt.Errorf("%s answers %s, and not as etcd-ferry does: %w", r.base, response.Status, err)
	}
	return response.StatusCode, nil
}

func (r *remote) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	path, query, _ := strings.Cut(path, "?")
	u := r.base.JoinPath(path)
	u.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err == nil && r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	return request, err
}

// complaint returns what the server complains about, if it does.
func complaint(status int, content []byte) error {
	var p struct {
		Error struct {
			Code, Message, OperationID string
		}
	}
	if err := json.Unmarshal(content, &p); err != nil || p.Error.Code == "" {
		return nil //nolint:nilerr // it is no complaint, whatever else it is
	}
	err := fmt.Errorf("%s (%s)", p.Error.Message, p.Error.Code)
	if p.Error.OperationID != "" {
		err = fmt.Errorf("%w, operation %s", err, p.Error.OperationID)
	}
	if status == http.StatusConflict {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	return fmt.Errorf("the server answers %d: %w", status, err)
}
