package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// demoGrace is how long a process may take that was asked to end.
const demoGrace = 20 * time.Second

// program is this binary, to be run in processes of its own. What they log goes
// to files in dir.
type program struct{ path, dir string }

func newProgram(dir string) (program, error) {
	path, err := os.Executable()
	return program{path, dir}, err
}

// run runs a command line until it ends, which it is asked to when ctx ends.
// Without out, what it says goes to the log too.
func (p program) run(ctx context.Context, log string, out io.Writer, args ...string) error {
	file, err := os.OpenFile(filepath.Join(p.dir, log+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = neutral(os.Environ())
	cmd.Stdout, cmd.Stderr = out, file
	if out == nil {
		cmd.Stdout = file
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = demoGrace
	// Ctrl-C is for the demo, which ends its processes in order; they end with it
	// too if it is killed. The kernel counts the death of the thread that started
	// them, so that is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// output runs a command line to its end and returns what it says.
func (p program) output(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := p.run(ctx, args[0], &out, args...)
	if err != nil {
		err = fmt.Errorf("etcd-ferry %s: %w", strings.Join(args, " "), err)
	}
	return out.Bytes(), err
}

// neutral leaves out what would set flags of etcd-ferry or etcd.
func neutral(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, "ETCD_") {
			kept = append(kept, v)
		}
	}
	return kept
}
