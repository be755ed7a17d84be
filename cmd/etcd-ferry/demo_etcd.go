package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
)

const demoEtcd = "demo-etcd"

// demoEtcdCommand is a real etcd, for the demo, with etcd's names for flags. It
// ends in order at SIGTERM, as etcd does.
type demoEtcdCommand struct {
	dataDir, clientURL string

	client url.URL // clientURL, as check has read it
}

func newDemoEtcdCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:    demoEtcd,
		Short:  "Run an etcd for the demo",
		Hidden: true,
	}, &demoEtcdCommand{})
}

func (c *demoEtcdCommand) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.dataDir, "data-dir", "", "data `dir` of etcd")
	fs.StringVar(&c.clientURL, "listen-client-urls", "http://127.0.0.1:2379", "`URL` for clients")
}

func (c *demoEtcdCommand) check() error {
	if c.dataDir == "" {
		return errors.New("--data-dir is missing")
	}
	u, err := url.Parse(c.clientURL)
	if err != nil || u.Host == "" {
		return fmt.Errorf("--listen-client-urls %q: want for example http://127.0.0.1:2379", c.clientURL)
	}
	c.client = *u
	return nil
}

// run ends with ctx also while etcd waits for the lock on its database, in which
// nothing interrupts it but the end of the process.
func (c *demoEtcdCommand) run(ctx context.Context, _ *env) error {
	type start struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan start, 1)
	go func() {
		etcd, err := embed.StartEtcd(c.config())
		started <- start{etcd, err}
	}()
	var s start
	select {
	case s = <-started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.err != nil {
		return fmt.Errorf("start etcd: %w", s.err)
	}
	defer s.etcd.Close()
	select {
	case err := <-s.etcd.Err():
		return fmt.Errorf("run etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// config is that of the only member of a cluster. Its peers, which it has not,
// find it on a free port.
func (c *demoEtcdCommand) config() *embed.Config {
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e := embed.NewConfig()
	e.Dir = c.dataDir
	e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{c.client}, []url.URL{c.client}
	e.ListenPeerUrls, e.AdvertisePeerUrls = free, free
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.EnableGRPCGateway = false
	e.TickMs, e.ElectionMs = 20, 100 // as in deploy/kustomize/base
	e.LogLevel = "warn"
	return e
}
