package restorer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
)

const asideLayout = ".before-20060102T150405Z"

// place moves what is in the data dir aside and puts the staged one there.
func (j *job) place(context.Context) error {
	s := j.staging
	if err := errors.Join(j.sign(), syncTree(s.data())); err != nil {
		return err
	}
	unlock, err := j.lock(s.dataDir)
	if err != nil {
		return err
	}
	defer unlock()
	crashpoint.Here(crashpoint.Built)
	from, to := s.data(), s.dataDir
	if s.inside {
		from, to = filepath.Join(from, memberFolder), filepath.Join(to, memberFolder)
	}
	if j.result.MovedAside, err = moveAside(to, time.Now()); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.MovedAside)
	if err := os.Rename(from, to); err != nil {
		if j.result.MovedAside != "" {
			err = errors.Join(err, os.Rename(j.result.MovedAside, to))
		}
		return err
	}
	crashpoint.Here(crashpoint.Placed)
	return syncFile(filepath.Dir(to))
}

// moveAside renames a folder out of the way and returns its new name. If there
// is no folder, or nothing in it that holds anything, it returns "".
func moveAside(dir string, now time.Time) (string, error) {
	empty, err := hollow(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if empty {
		return "", os.RemoveAll(dir)
	}
	stem := dir + now.UTC().Format(asideLayout)
	aside := stem
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(dir, aside)
		}
		aside = fmt.Sprintf("%s-%d", stem, n)
	}
}

// syncTree makes everything below dir durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncFile(path)
	})
}

// syncFile makes a file or a directory durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
