package restorer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrBusy is wrapped when somebody else works on the data dir.
var ErrBusy = errors.New("data dir is in use")

const (
	stagingSuffix = ".restoring"
	memberFolder  = "member" // in it is all that etcd keeps in its data dir
)

// staging is the folder in which a data dir is made, on the filesystem where it
// will be used:
//
//	lock     locked while a restore goes on
//	data/    the data dir
//	*.db     what it is made from
//
// A restore that is killed leaves it behind, and the next one clears it.
type staging struct {
	dataDir string // absolute, without symbolic links
	inside  bool   // dataDir cannot be renamed: the folder is in it, not beside it
	dir     string
	lock    *os.File
}

func (s *staging) path(name string) string { return filepath.Join(s.dir, name) }
func (s *staging) data() string            { return s.path("data") }
func (s *staging) db() string              { return databasePath(s.data()) }

// databasePath is where etcd keeps its database in a data dir.
func databasePath(dataDir string) string {
	return filepath.Join(dataDir, memberFolder, "snap", "db")
}

// lock is lockDatabase, unless the caller of the Restorer has done that.
func (r *Restorer) lock(dataDir string) (unlock func(), err error) {
	if r.Locked {
		return func() {}, nil
	}
	return lockDatabase(dataDir)
}

// newStaging makes an empty folder. The caller must call remove.
func (r *Restorer) newStaging(dataDir string) (*staging, error) {
	dataDir, err := resolve(dataDir)
	if err != nil {
		return nil, err
	}
	unlock, err := r.lock(dataDir)
	if err != nil {
		return nil, err
	}
	unlock() // place looks again
	s := &staging{dataDir: dataDir, dir: dataDir + stagingSuffix}
	if s.inside, err = fixed(dataDir); err != nil {
		return nil, err
	}
	if s.inside {
		s.dir = filepath.Join(dataDir, stagingSuffix)
	}
	return s, s.acquire()
}

// resolve makes sure that what will be renamed is the data dir and not a
// symbolic link to it. It makes the parent if there is none.
func resolve(dataDir string) (string, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(dataDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	if err := os.MkdirAll(filepath.Dir(dataDir), 0o700); err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dataDir))
	return filepath.Join(parent, filepath.Base(dataDir)), err
}

// fixed reports whether the data dir exists and cannot be renamed: it is a mount
// point, as volumes in Kubernetes are, or its parent is not ours to write.
func fixed(dataDir string) (bool, error) {
	if _, err := os.Stat(dataDir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	parent := filepath.Dir(dataDir)
	var own, above unix.Stat_t
	if err := errors.Join(unix.Stat(dataDir, &own), unix.Stat(parent, &above)); err != nil {
		return false, fmt.Errorf("look at %s: %w", dataDir, err)
	}
	return own.Dev != above.Dev || unix.Access(parent, unix.W_OK) != nil, nil
}

// acquire makes the folder ours, and empty.
func (s *staging) acquire() error {
	err := os.Mkdir(s.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = checkOwn(s.dir)
	}
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(s.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := flock(lock); err != nil {
		_ = lock.Close() // nothing was written
		return fmt.Errorf("%w: another restore is at work in %s", err, s.dir)
	}
	s.lock = lock
	if err := s.clear(); err != nil {
		return errors.Join(err, s.lock.Close())
	}
	return nil
}

// checkOwn makes sure that nobody has put something else in our way, such as a
// link to a folder that must not be cleared.
func checkOwn(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s is in the way and not a folder of this user: remove it", dir)
	}
	return nil
}

// clear removes what is in the folder but for the lock. It fails if the folder
// is no more the one that was locked.
func (s *staging) clear() error {
	held, err := s.lock.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(s.lock.Name())
	if err != nil || !os.SameFile(held, there) {
		return fmt.Errorf("%w: another restore has just removed %s", ErrBusy, s.dir)
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if e.Name() != there.Name() {
			err = errors.Join(err, os.RemoveAll(s.path(e.Name())))
		}
	}
	return err
}

// remove removes the folder and gives up its lock.
func (s *staging) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// lockDatabase takes the lock that an etcd holds while it runs. Until unlock an
// etcd that is started waits and does not serve. No database needs no lock.
func lockDatabase(dataDir string) (unlock func(), err error) {
	f, err := os.OpenFile(databasePath(dataDir), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%w: an etcd runs on %s: stop it first", err, dataDir)
	}
	return func() { _ = f.Close() }, nil // nothing was written
}

// flock locks f without waiting.
func flock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}
