package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// examineDataDir looks whether a restore could make the data dir: package
// restorer tells what it does.
func (c *doctorCommand) examineDataDir(ctx context.Context) []finding {
	dir, err := filepath.Abs(c.owner.dataDir)
	if err != nil {
		return []finding{failed("data dir: place", err)}
	}
	staged, err := stagingPlace(dir)
	if err != nil {
		return []finding{failed("data dir: place", err)}
	}
	return []finding{
		fine("data dir: place", "a restore is made in "+staged),
		judged("data dir: filesystem", "one for all of it", checkOneFilesystem(dir)),
		c.checkRoom(ctx, staged),
	}
}

// stagingPlace returns the nearest directory that exists in which a restore would
// work: beside the data dir, or in it if it cannot be renamed.
func stagingPlace(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory: name another one", dir)
	}
	parent := filepath.Dir(dir)
	var own, above unix.Stat_t
	switch {
	case errors.Is(err, fs.ErrNotExist):
		for _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent); _, err = os.Stat(parent) {
			parent = filepath.Dir(parent)
		}
		return parent, checkWritable(parent)
	case err != nil:
		return "", err
	}
	if err := errors.Join(unix.Stat(dir, &own), unix.Stat(parent, &above)); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	if own.Dev != above.Dev || checkWritable(parent) != nil {
		return dir, checkWritable(dir)
	}
	return parent, nil
}

func checkWritable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("uid %d may not write in %s: change its owner or mode, or the user (%w)", os.Geteuid(), dir, err)
	}
	return nil
}

// checkOneFilesystem makes sure that what a restore moves can be renamed.
func checkOneFilesystem(dir string) error {
	var own, inner unix.Stat_t
	if err := unix.Stat(dir, &own); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	for _, name := range []string{"member", "member/wal", "member/snap"} {
		path := filepath.Join(dir, name)
		err := unix.Stat(path, &inner)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at %s: %w", path, err)
		case inner.Dev != own.Dev:
			return fmt.Errorf("%s is another filesystem than %s, and a restore renames: mount one volume at the data dir", path, dir)
		}
	}
	return nil
}

// checkRoom compares what is free with what the newest restore would take.
func (c *doctorCommand) checkRoom(ctx context.Context, place string) finding {
	const check = "data dir: room"
	var st unix.Statfs_t
	if err := unix.Statfs(place, &st); err != nil {
		return failed(check, fmt.Errorf("look at the filesystem of %s: %w", place, err))
	}
	free := bytesize(int64(st.Bavail) * int64(st.Bsize)) //nolint:unconvert // on other systems it is one
	if c.store.url == "" {
		return unchecked(check, fmt.Sprintf("%s are free: give --store to know what a restore takes", free))
	}
	need, err := c.restoreSize(ctx)
	switch {
	case errors.Is(err, snapshot.ErrNothing):
		return unchecked(check, fmt.Sprintf("%s are free: nothing is stored yet", free))
	case err != nil:
		return unchecked(check, fmt.Sprintf("%s are free, what a restore takes is not known: %v", free, err))
	case free < need:
		return failed(check, fmt.Errorf("a restore takes up to %s, and %s are free: enlarge the volume of %s", need, free, place))
	}
	return fine(check, fmt.Sprintf("a restore takes up to %s, %s are free", need, free))
}

// restoreSize is how many bytes the newest state takes at most on its way.
func (c *doctorCommand) restoreSize(ctx context.Context) (bytesize, error) {
	s, err := c.store.wrapped(newMetrics())
	if err != nil {
		return 0, err
	}
	listing, err := archive.New(s).List(ctx)
	if err != nil {
		return 0, err
	}
	plan, err := restorer.NewPlan(listing, restorer.Options{})
	return bytesize(plan.Room()), err
}
