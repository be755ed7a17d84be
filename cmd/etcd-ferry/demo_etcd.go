package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
)

const (
	demoEtcd = "demo-etcd"
	// readyPrefix begins the one line that the hidden command prints; the
	// endpoint follows.
	readyPrefix = "ready "
)

// demoEtcdCommand is a real etcd, for the demo. It ends when its standard input
// does, so it cannot outlive the demo however that ends.
type demoEtcdCommand struct{ dataDir string }

func newDemoEtcdCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:    demoEtcd,
		Short:  "Run an etcd for the demo",
		Hidden: true,
	}, &demoEtcdCommand{})
}

func (c *demoEtcdCommand) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.dataDir, "data-dir", "", "data `dir` of etcd")
}

func (c *demoEtcdCommand) check() error {
	if c.dataDir == "" {
		return errors.New("--data-dir is missing")
	}
	return nil
}

func (c *demoEtcdCommand) run(ctx context.Context, e *env) error {
	etcd, err := embed.StartEtcd(demoEtcdConfig(c.dataDir))
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
		fmt.Fprintf(e.out, "%shttp://%s\n", readyPrefix, etcd.Clients[0].Addr())
	case err := <-etcd.Err():
		return fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-etcd.Err():
		return fmt.Errorf("run etcd: %w", err)
	case <-inputEnded():
	case <-ctx.Done():
	}
	return nil
}

// inputEnded is closed when standard input is. The read in it cannot be
// interrupted, so nobody waits for it; the process is about to end anyway.
func inputEnded() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ended
}

// demoEtcdConfig makes etcd listen on free ports of the loopback interface.
func demoEtcdConfig(dataDir string) *embed.Config {
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Dir = dataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = free, free
	c.ListenPeerUrls, c.AdvertisePeerUrls = free, free
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false
	c.LogLevel = "warn"
	return c
}

// demoProcess is a demoEtcdCommand in a process of its own.
type demoProcess struct {
	endpoint string
	command  *exec.Cmd
	input    io.Closer
}

// startDemoEtcd runs an etcd until kill is called or ctx ends. What it logs is
// appended to logFile.
func startDemoEtcd(ctx context.Context, dataDir, logFile string) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &demoProcess{command: exec.CommandContext(ctx, self, demoEtcd, "--data-dir", dataDir)}
	p.command.Stderr = log
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	line, _ := bufio.NewReader(output).ReadString('\n') // an error shows in the line
	endpoint, ready := strings.CutPrefix(strings.TrimSpace(line), readyPrefix)
	if !ready {
		p.kill()
		return nil, fmt.Errorf("etcd did not start, see %s", logFile)
	}
	p.endpoint = endpoint
	return p, nil
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *demoProcess) kill() {
	_ = p.command.Process.Kill() // it fails only if the process is gone
	_ = p.command.Wait()         // and this only tells how it ended
	_ = p.input.Close()
}
