package fence_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
)

// actVariable makes the test binary one of the programs below.
const actVariable = "FENCE_TEST_ACT"

func TestMain(m *testing.M) {
	act := map[string]func([]string) error{
		"gate": gate, "deaf-gate": deafGate, "lock": lock, "probe": probe, "fence": doFence, "find": find, "bare": bare,
	}[os.Getenv(actVariable)]
	if act == nil {
		goleak.VerifyTestMain(m)
		return
	}
	if err := act(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// gate runs a command as etcd-ferry gate does: it adopts what the command leaves
// behind, passes SIGTERM on, and ends with the command.
func gate(command []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	cmd := child(command)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range term {
			_ = cmd.Process.Signal(s)
		}
	}()
	return cmd.Wait()
}

// deafGate does not hear SIGTERM, and outlives its command.
func deafGate(command []string) error {
	signal.Ignore(syscall.SIGTERM)
	_ = gate(command)
	select {}
}

// lock holds an exclusive lock on a file, and says so.
func lock(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// probe, doFence and find print what kind of error they get.
func probe(args []string) error {
	return tell(fence.New(args[0]).Probe(fence.Process{}))
}

func doFence(args []string) error {
	f := fence.New(args[0])
	f.Grace, f.KillWait = shortGrace, shortGrace
	_, _, err := f.Fence(backgroundOfChild(), fence.Process{})
	return tell(err)
}

func find(args []string) error {
	p, err := fence.FindHolder(args[0])
	if err == nil {
		fmt.Println(p.PID)
		return nil
	}
	return tell(err)
}

// bare gives all capabilities away, and acts as the first argument says.
func bare(args []string) error {
	runtime.LockOSThread() // capabilities are a thread's
	for c := range unix.CAP_LAST_CAP + 1 {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := os.Setenv(actVariable, args[0]); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", append([]string{os.Args[0]}, args[1:]...), os.Environ())
}

func tell(err error) error {
	switch {
	case errors.Is(err, fence.ErrNotPermitted):
		fmt.Println("not permitted")
	case errors.Is(err, fence.ErrUnknownHolder):
		fmt.Println("unknown holder")
	case err == nil:
		fmt.Println("ok")
	default:
		return err
	}
	return nil
}

// child runs a command that dies with this process, and does not act.
func child(command []string) *exec.Cmd {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), actVariable+"=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}
