package etcdtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Option changes how an etcd is run.
type Option func(*options)

type options struct {
	version string
	dataDir string
	args    []string
	env     []string
	tls     bool
}

// WithVersion selects one of Versions; the default is Newest.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithDataDir uses a data dir that may exist already; the default is a new one.
// The members of a cluster get folders in it, named like them.
func WithDataDir(dir string) Option { return func(o *options) { o.dataDir = dir } }

// WithArgs adds flags of etcd. They win over those that this package sets.
func WithArgs(args ...string) Option {
	return func(o *options) { o.args = append(slices.Clip(o.args), args...) }
}

// WithEnv adds environment variables of the form "NAME=value". ETCD_ variables
// of the test binary itself are not passed on.
func WithEnv(env ...string) Option {
	return func(o *options) { o.env = append(slices.Clip(o.env), env...) }
}

// WithoutFsync trades durability for speed, for tests that load much data and
// do not end etcd by force.
func WithoutFsync() Option { return WithArgs("--unsafe-no-fsync") }

// WithTLS makes clients use TLS and show a certificate, see TLS.
func WithTLS() Option { return func(o *options) { o.tls = true } }

func collect(t testing.TB, opts []Option) options {
	t.Helper()
	o := options{version: Newest}
	for _, opt := range opts {
		opt(&o)
	}
	if o.dataDir == "" {
		o.dataDir = filepath.Join(t.TempDir(), "etcd")
	}
	return o
}

// environ is the environment of etcd.
func (o options) environ() []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
	return append(inherited, o.env...)
}
