package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store/file"
)

// demoTimeout ends a demo that hangs.
const demoTimeout = 3 * time.Minute

type demoCommand struct{ keep bool }

func newDemoCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "demo",
		Short: "See an etcd backed up, lost and brought back, in half a minute",
		Long: `demo runs a real etcd in a process of its own, writes to it as Kubernetes would,
backs it up meanwhile, kills it and deletes its data, restores it, and compares:
the hash of the key space, and every acknowledged write. It needs no network and
no etcd installed, and leaves nothing behind unless --keep is given.

The exit code is 0 only if nothing was lost.`,
	}, &demoCommand{})
}

func (c *demoCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.keep, "keep", false, "keep the store and the restored data, to look around")
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
		return errors.Join(err, d.logFile.Close())
	}
	return errors.Join(err, d.cleanUp(c.keep && err == nil))
}

// demo is one performance.
type demo struct {
	dir     string // of all that it leaves
	out     io.Writer
	began   time.Time
	archive *archive.Archive
	log     *slog.Logger
	logFile *os.File
}

func newDemo(out io.Writer) (*demo, error) {
	dir, err := os.MkdirTemp("", "etcd-ferry-demo-")
	if err != nil {
		return nil, err
	}
	d := &demo{dir: dir, out: out, began: time.Now()}
	d.archive = archive.New(file.New(d.path("store")))
	d.logFile, err = os.Create(d.path("etcd-ferry.log"))
	if err == nil {
		err = os.Mkdir(d.path("store"), 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d.log = slog.New(slog.NewTextHandler(d.logFile, nil))
	return d, nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// tell prints a line of the story.
func (d *demo) tell(format string, args ...any) {
	fmt.Fprintf(d.out, "%6s  %s\n", seconds(time.Since(d.began)), fmt.Sprintf(format, args...))
}

// cleanUp removes what the demo leaves, unless somebody wants to see it.
func (d *demo) cleanUp(keep bool) error {
	closeErr := d.logFile.Close()
	if !keep {
		return errors.Join(closeErr, os.RemoveAll(d.dir))
	}
	fmt.Fprintf(d.out, `
Everything is in %[1]s. Look around:
  etcd-ferry list    --store file://%[1]s/store
  etcd-ferry verify  --store file://%[1]s/store
  etcd-ferry restore --store file://%[1]s/store --data-dir %[1]s/again --dry-run
`, d.dir)
	return closeErr
}
