package fence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// flockEntry is an exclusive flock in /proc/locks.
type flockEntry struct {
	pid   int
	major uint32
	minor uint32
	inode uint64
}

// parseLocks returns the exclusive flocks that are held, see proc_locks(5).
// Other kinds of locks (etcd has OFD locks on its WAL) are of no interest, nor
// are those that somebody waits for, nor those of processes that cannot be seen.
func parseLocks(r io.Reader) ([]flockEntry, error) {
	var found []flockEntry
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// 1: FLOCK  ADVISORY  WRITE 4096 fe:00:1234 0 EOF
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" {
			continue
		}
		var e flockEntry
		if _, err := fmt.Sscanf(f[4]+" "+f[5], "%d %x:%x:%d", &e.pid, &e.major, &e.minor, &e.inode); err != nil {
			return nil, fmt.Errorf("/proc/locks: cannot parse %q: %w", lines.Text(), err)
		}
		if e.pid > 0 {
			found = append(found, e)
		}
	}
	return found, lines.Err()
}

func readLocks() ([]flockEntry, error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseLocks(f)
}

// on reports whether e is a lock on a file, going by device and inode.
func (e flockEntry) on(file os.FileInfo) bool {
	s, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	dev := uint64(s.Dev) //nolint:unconvert // it has another type on other systems
	return s.Ino == e.inode && unix.Major(dev) == e.major && unix.Minor(dev) == e.minor
}

// answer is yes or no, or neither.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// locks looks among the open files of a process for an exclusive flock on a
// file. That needs no device numbers, but the permission to look.
func locks(pid int, file os.FileInfo) answer {
	fds, err := os.ReadDir(proc(pid, "fd"))
	if err != nil {
		return unknown
	}
	for _, fd := range fds {
		opened, err := os.Stat(filepath.Join(proc(pid, "fd"), fd.Name()))
		if errors.Is(err, fs.ErrPermission) { // to list is one permission, to look another
			return unknown
		}
		if err != nil || !os.SameFile(opened, file) {
			continue
		}
		info, err := os.ReadFile(filepath.Join(proc(pid, "fdinfo"), fd.Name()))
		if err != nil {
			return unknown
		}
		if showsLock(info, pid) {
			return yes
		}
	}
	return no
}

// showsLock looks for the line "lock: 1: FLOCK  ADVISORY  WRITE 42 …" in the
// fdinfo of a file of process 42.
func showsLock(fdinfo []byte, pid int) bool {
	for line := range bytes.Lines(fdinfo) {
		f := strings.Fields(string(line))
		if len(f) > 5 && f[0] == "lock:" && f[2] == "FLOCK" && f[4] == "WRITE" && f[5] == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}
