package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// demoTimeout ends a demo that hangs.
const demoTimeout = 3 * time.Minute

type demoCommand struct{ keep bool }

func newDemoCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "demo",
		Short: "See an etcd handed over under load without losing a write, in half a minute",
		Long: `demo runs two deployments, A and B, each with a real etcd, a gate and a server in
processes of their own, and a container in a directory. Clients write to A and never
stop. A is asked to hand its etcd over to B; the clients go on at B as soon as it
serves. Then every key and lease is compared with what was ever acknowledged. It
needs no network and no etcd installed, and leaves nothing behind unless --keep is
given.

The exit code is 0 only if nothing was lost.`,
	}, &demoCommand{})
}

func (c *demoCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.keep, "keep", false, "keep both containers, data dirs and all logs, to look around")
}

func (c *demoCommand) check() error { return nil }

func (c *demoCommand) run(ctx context.Context, e *env) error {
	d, err := newDemo(e.out)
	if err != nil {
		return err
	}
	playing, cancel := context.WithTimeoutCause(ctx, demoTimeout, errors.New("the demo takes too long"))
	defer cancel()
	err = d.play(playing)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(e.out, "\nThe demo failed. What it left, logs too, is in %s\n", d.dir)
		return err
	}
	return errors.Join(err, d.cleanUp(c.keep && err == nil))
}

// demo is one performance.
type demo struct {
	dir   string // of all that it leaves
	self  program
	began time.Time

	mu  sync.Mutex // guards out: several tell
	out io.Writer
}

func newDemo(out io.Writer) (*demo, error) {
	dir, err := os.MkdirTemp("", "etcd-ferry-demo-")
	if err != nil {
		return nil, err
	}
	self, err := newProgram(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &demo{dir: dir, self: self, out: out, began: time.Now()}, nil
}

// tell prints a line of the story.
func (d *demo) tell(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%6s  %s\n", seconds(time.Since(d.began)), fmt.Sprintf(format, args...))
}

// cleanUp removes what the demo leaves, unless somebody wants to see it.
func (d *demo) cleanUp(keep bool) error {
	if !keep {
		return os.RemoveAll(d.dir)
	}
	fmt.Fprintf(d.out, `
Everything is in %[1]s, with a log of each process. Look around:
  cat %[1]s/A/container/copy-operation.json
  etcd-ferry list    --store file://%[1]s/A/container
  etcd-ferry verify  --store file://%[1]s/B/container
  etcd-ferry restore --store file://%[1]s/B/container --data-dir %[1]s/again --dry-run
`, d.dir)
	return nil
}
