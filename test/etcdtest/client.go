package etcdtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	dialTimeout = 10 * time.Second
	dialRetries = 3
)

// Client returns a client of this member alone, open until the test ends. It
// shows the certificate and the password that the member asks for, and connects
// again soon after a restart.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c := e.dial(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (e *Etcd) dial(t testing.TB) *clientv3.Client {
	t.Helper()
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 20*time.Millisecond, 200*time.Millisecond
	config := clientv3.Config{
		Endpoints:   []string{e.endpoint},
		TLS:         e.TLS.Config(t),
		DialTimeout: dialTimeout,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect})},
		Logger:      zap.NewNop(),
	}
	if e.Auth != nil {
		config.Username, config.Password = e.Auth.User, e.Auth.Password
	}
	c, err := clientv3.New(config)
	for range dialRetries { // with a password it asks for a token, and gives up at a broken connection
		if err == nil {
			return c
		}
		pause(t.Context(), reconnect.MaxDelay)
		c, err = clientv3.New(config)
	}
	if err != nil {
		t.Fatalf("client of %s: %v", e, err)
	}
	return c
}

// Revision returns the newest revision, as a linearizable read sees it.
func (e *Etcd) Revision(t testing.TB) int64 {
	t.Helper()
	c := e.dial(t)
	defer c.Close()
	r, err := c.Get(t.Context(), "any", clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("revision of %s: %v", e, err)
	}
	return r.Header.Revision
}

// HashKV returns etcd's hash of all key-values up to a revision, 0 for the
// newest, and the compacted revision that the hash starts from. Two etcds with
// equal answers hold the same history.
func (e *Etcd) HashKV(t testing.TB, revision int64) (hash uint32, compactRevision int64) {
	t.Helper()
	c := e.dial(t)
	defer c.Close()
	r, err := c.HashKV(t.Context(), e.endpoint, revision)
	if err != nil {
		t.Fatalf("hash of %s at revision %d: %v", e, revision, err)
	}
	return r.Hash, r.CompactRevision
}

// Auth is the superuser of an etcd with access control.
type Auth struct {
	User     string
	Password string
	File     string // holds one line "user:password"
}

// EnableAuth creates the user root and turns access control on. Clients made
// later are root.
func (e *Etcd) EnableAuth(t testing.TB) {
	t.Helper()
	auth := &Auth{User: "root", Password: "secret of the test", File: filepath.Join(t.TempDir(), "user")}
	c := e.dial(t)
	defer c.Close()
	_, err := c.RoleAdd(t.Context(), "root")
	if err == nil {
		_, err = c.UserAdd(t.Context(), auth.User, auth.Password)
	}
	if err == nil {
		_, err = c.UserGrantRole(t.Context(), auth.User, "root")
	}
	if err == nil {
		_, err = c.AuthEnable(t.Context())
	}
	if err == nil {
		err = os.WriteFile(auth.File, []byte(auth.User+":"+auth.Password+"\n"), 0o600)
	}
	if err != nil {
		t.Fatalf("enable access control of %s: %v", e, err)
	}
	e.Auth = auth
}
