package fence

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Process is one process: its id is used again after its end, the two together
// are not. The zero value is no process.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot: field 22 of /proc/PID/stat
}

// IsZero reports whether p is no process.
func (p Process) IsZero() bool { return p == Process{} }

// Find returns the process with an id, which may have ended if its parent has
// not noticed yet. It wraps fs.ErrNotExist if there is none.
func Find(pid int) (Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	return s.Process, nil
}

// Alive reports whether p has not ended yet.
func (p Process) Alive() (bool, error) {
	h, err := open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer h.close()
	err = wait([]*handle{h}, 0)
	return !h.ended, err
}

// stat is what is needed of /proc/PID/stat, see proc_pid_stat(5).
type stat struct {
	Process
	parent int
}

const (
	// Fields after the name, which is in parentheses and may contain any.
	statParent = 4 - 3
	statStart  = 22 - 3
)

func readStat(pid int) (stat, error) {
	line, err := os.ReadFile(proc(pid, "stat"))
	if errors.Is(err, syscall.ESRCH) { // it ended between open and read
		err = fs.ErrNotExist
	}
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= statStart {
		return stat{}, fmt.Errorf("process %d: cannot parse %q", pid, line)
	}
	parent, err := strconv.Atoi(string(fields[statParent]))
	start, startErr := strconv.ParseUint(string(fields[statStart]), 10, 64)
	if err := errors.Join(err, startErr); err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return stat{Process{pid, start}, parent}, nil
}

func proc(pid int, name string) string {
	return fmt.Sprintf("/proc/%d/%s", pid, name)
}

// subtree returns all processes that descend from root, which is not among them.
func subtree(root Process) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]Process)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if err != nil { // it has ended
			continue
		}
		children[s.parent] = append(children[s.parent], s.Process)
	}
	found := children[root.PID]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].PID]...)
	}
	return found, nil
}
