package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/gate"
)

type gateCommand struct {
	server, install string
	command         []string
}

func newGateCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "gate --server URL -- COMMAND ARGS...",
		Short: "Run etcd as soon as, and only if, its sidecar permits it",
		Long: `gate is the entrypoint of the etcd container. It asks the sidecar for permission,
waits for as long as that takes, and then runs the command. Signals go on to the
command, its exit status is gate's own: 128 + n if signal n ended it.

The image needs nothing but etcd: an init container puts this program into a shared
volume with --install, and needs no shell for it.`,
		Example: `  etcd-ferry gate --install /ferry/etcd-ferry
  /ferry/etcd-ferry gate --server http://127.0.0.1:8080 -- etcd --data-dir /var/lib/etcd`,
	}, &gateCommand{})
}

func (c *gateCommand) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.server, "server", "http://127.0.0.1:8080", "`address` of the sidecar: http://HOST:PORT or unix:///PATH")
	fs.StringVar(&c.install, "install", "", "only copy this program to a `path`")
}

func (c *gateCommand) words(args []string) { c.command = args }

func (c *gateCommand) check() error {
	switch {
	case c.install != "" && len(c.command) > 0:
		return errors.New("--install runs no command")
	case c.install == "" && len(c.command) == 0:
		return errors.New("no command to run: name it after --, as in: gate -- etcd --data-dir /var/lib/etcd")
	}
	_, err := gate.New(c.server)
	return err
}

func (c *gateCommand) run(ctx context.Context, e *env) error {
	if c.install != "" {
		return install(c.install)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	defer signal.Stop(signals)
	g, err := gate.New(c.server)
	if err != nil {
		return err
	}
	g.Log = e.log
	status, err := g.Run(ctx, signals, c.command)
	if err == nil && status != 0 {
		err = statusError(status)
	}
	return err
}

// install puts a copy of this program at path. It appears whole or not at all.
func install(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	temp, err := os.CreateTemp(filepath.Dir(path), ".etcd-ferry-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it is gone if all went well
	_, err = io.Copy(temp, self)
	const everyone = 0o755 // etcd's container may have another user
	if err := errors.Join(err, temp.Chmod(everyone), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}
