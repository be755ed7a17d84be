package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sidecar answers a gate as told: it refuses n times, then permits for a lease.
func sidecar(t *testing.T, refusals int64, lease float64) (handler http.Handler, asked *atomic.Value, count *atomic.Int64) {
	t.Helper()
	asked, count = new(atomic.Value), new(atomic.Int64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		if count.Add(1) <= refusals {
			w.WriteHeader(http.StatusLocked)
			fmt.Fprint(w, `{"error":{"code":"shut","message":"another deployment owns the data"}}`)
			return
		}
		fmt.Fprintf(w, `{"allowed":true,"leaseRemainingSeconds":%g}`, lease)
	}), asked, count
}

func permissive(t *testing.T) string {
	t.Helper()
	h, _, _ := sidecar(t, 0, 60)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestGateEndsAsItsCommandEnds(t *testing.T) {
	url := permissive(t)
	for script, status := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"kill -KILL $$": 128 + 9,
		"kill -TERM $$": 128 + 15,
	} {
		o := ferry(t, "gate", "--server", url, "--", "sh", "-c", script)
		if o.code != status || strings.Contains(o.stderr, "error:") {
			t.Errorf("%s: exit code %d, want %d, without an error of our own: %s", script, o.code, status, o.stderr)
		}
	}
	ferry(t, "gate", "--server", url, "--", "no-such-command").wantFailure(t, 1, "no-such-command")
	ferry(t, "gate", "--server", url).wantFailure(t, 2, "no command to run")
	ferry(t, "gate", "--server", "127.0.0.1:1", "--", "true").wantFailure(t, 2, "http://HOST:PORT")
}

func TestGateWaitsForPermissionAndSaysWho(t *testing.T) {
	handler, asked, count := sidecar(t, 2, 60)
	socket := filepath.Join(t.TempDir(), "sidecar.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler} //nolint:gosec // a test
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	o := ferry(t, "gate", "--server", "unix://"+socket, "--", "sh", "-c", "cat /proc/$PPID/stat").wantSuccess(t)
	stat := strings.Fields(o.stdout) // the name, etcd-ferry, has no blank
	if want := "/gate?pid=" + stat[0] + "&start=" + stat[21]; asked.Load() != want || count.Load() != 3 {
		t.Errorf("asked %s, %d times, want %s", asked.Load(), count.Load(), want)
	}
	if strings.Count(o.stderr, "another deployment owns the data") != 1 {
		t.Errorf("want the reason told once:\n%s", o.stderr)
	}
}

func TestGateStartsNothingOutsideALease(t *testing.T) {
	expired, _, count := sidecar(t, 0, 0)
	foreign := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { count.Add(1); fmt.Fprint(w, "<html>welcome</html>") })
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"allowed":true,"leaseRemainingSeconds":60}`)
	})
	for name, handler := range map[string]http.Handler{"expired": expired, "foreign": foreign, "broken": broken} {
		t.Run(name, func(t *testing.T) {
			count.Store(0)
			s := httptest.NewServer(handler)
			defer s.Close()
			mark := filepath.Join(t.TempDir(), "ran")
			cmd := command(t.Context(), "gate", "--server", s.URL, "--", "touch", mark)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for count.Load() < 2 {
				if cmd.Process.Signal(syscall.Signal(0)) != nil {
					t.Fatal("the gate has ended")
				}
			}
			if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), ignoreExit(cmd.Wait())); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(mark); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("the command ran (%v), or exit code %d", err, cmd.ProcessState.ExitCode())
			}
		})
	}
}

func ignoreExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// gated starts a gate with a script and returns it with the script's output.
func gated(t *testing.T, script string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := command(t.Context(), "gate", "--server", permissive(t), "--", "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func TestGatePassesSignalsOn(t *testing.T) {
	for s, name := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1"} {
		cmd, out := gated(t, `trap "exit 9" `+name+`; echo ready; while :; do sleep 0.02; done`)
		out.Scan()
		if err := errors.Join(cmd.Process.Signal(s), ignoreExit(cmd.Wait())); err != nil || cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("%s: %v, exit code %d, want 9", name, err, cmd.ProcessState.ExitCode())
		}
	}
}

// A shell that is asked to end leaves its child behind, and a killed gate all of
// them. Neither may serve on.
func TestGateLeavesNothingBehind(t *testing.T) {
	const script = `sleep 1000 & echo $!; wait`
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		cmd, out := gated(t, script)
		out.Scan()
		grandchild, err := strconv.Atoi(out.Text())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(grandchild, syscall.SIGKILL) })
		if s == syscall.SIGKILL { // what the container runtime sees to is the grandchild
			_ = syscall.Kill(grandchild, syscall.SIGKILL)
		}
		if err := errors.Join(cmd.Process.Signal(s), ignoreExit(cmd.Wait())); err != nil {
			t.Fatal(err)
		}
		if syscall.Kill(grandchild, 0) == nil && s == syscall.SIGTERM {
			t.Errorf("signal %v: the gate has ended, its grandchild goes on", s)
		}
	}
}

// The command ends with its gate, also with one that could not say goodbye.
func TestGateKilledEndsItsCommand(t *testing.T) {
	cmd, out := gated(t, `echo ready; exec sleep 1000`)
	out.Scan()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if out.Scan() { // the pipe closes when the last process that could write to it is gone
		t.Errorf("unexpected output %q", out.Text())
	}
	_ = cmd.Wait()
}

func TestGateInstallsItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ferry")
	must(t, "gate", "--install", path)
	out, err := exec.CommandContext(t.Context(), path, "gate", "--server", permissive(t), "--", "echo", "through").Output()
	if err != nil || string(out) != "through\n" {
		t.Errorf("%s%v", out, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}
