package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
)

const defaultEtcdEndpoint = "http://127.0.0.1:2379"

// etcdFlags say how to reach etcd.
type etcdFlags struct {
	config  etcd.Config
	name    string   // of the flag for the endpoints
	presets []string // endpoints if none are given; none: etcd is not needed
	usage   string   // of the endpoints
}

// requiredEtcd is for commands that work on an etcd.
func requiredEtcd() etcdFlags {
	return etcdFlags{name: "etcd-endpoints", presets: []string{defaultEtcdEndpoint}, usage: "`URLs` of etcd's members; one is used at a time"}
}

func (e *etcdFlags) flags(fs *pflag.FlagSet) {
	c := &e.config
	fs.StringSliceVar(&c.Endpoints, e.name, e.presets, e.usage)
	fs.StringVar(&c.CAFile, "etcd-cacert", "", "PEM `file` with the authorities to trust; default: the system's")
	fs.StringVar(&c.CertFile, "etcd-cert", "", "PEM `file` with the client certificate, with --etcd-key")
	fs.StringVar(&c.KeyFile, "etcd-key", "", "PEM `file` with the key of --etcd-cert")
	fs.StringVar(&c.UserFile, "etcd-user-file", "", "`file` with one line user:password")
}

func (e *etcdFlags) check() error {
	var errs []error
	if len(e.config.Endpoints) == 0 && len(e.presets) > 0 {
		errs = append(errs, fmt.Errorf("--%s is empty: name at least one", e.name))
	}
	for _, endpoint := range e.config.Endpoints {
		if err := checkEndpoint(endpoint); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", e.name, err))
		}
	}
	if (e.config.CertFile == "") != (e.config.KeyFile == "") {
		errs = append(errs, errors.New("--etcd-cert and --etcd-key belong together: give both or none"))
	}
	return errors.Join(errs...)
}

// checkEndpoint wants a URL or host:port. Its errors show no password.
func checkEndpoint(endpoint string) error {
	if _, _, err := net.SplitHostPort(endpoint); err == nil && !strings.ContainsAny(endpoint, "/@") {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || strings.Contains(u.Opaque, "@"):
		return errors.New("not a valid URL, want for example " + defaultEtcdEndpoint)
	case u.User != nil:
		return errors.New("put user and password into a file and name it with --etcd-user-file")
	case !slices.Contains([]string{"http", "https", "unix", "unixs"}, u.Scheme) || u.Host+u.Path == "":
		return fmt.Errorf("%q: want for example %s", endpoint, defaultEtcdEndpoint)
	}
	return nil
}

// dial returns a client, without waiting for etcd.
func (e *etcdFlags) dial(ctx context.Context) (*etcd.Client, error) { return etcd.Dial(ctx, e.config) }

// given reports whether there are endpoints.
func (e *etcdFlags) given() bool { return len(e.config.Endpoints) > 0 }

// explain adds to an error what to look at, if etcd did not answer.
func (e *etcdFlags) explain(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: does etcd run there, and are --%s and the TLS flags right?", err, e.name)
	}
	return err
}
