package fence_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const (
	shortGrace = 500 * time.Millisecond
	// settle is long enough for an etcd to start and serve, were it not fenced.
	settle = 2 * time.Second
)

func backgroundOfChild() context.Context { return context.Background() }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func short(dataDir string) *fence.Fencer {
	f := fence.New(dataDir)
	f.Grace = shortGrace
	return f
}

// start runs a command that ends with the test, acting as said, and returns its
// process and its output.
func start(t *testing.T, act string, command ...string) (fence.Process, *bufio.Reader) {
	t.Helper()
	return startAs(t, nil, act, command...)
}

func startAs(t *testing.T, as *syscall.Credential, act string, command ...string) (fence.Process, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environ(act)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	p, err := fence.Find(cmd.Process.Pid)
	must(t, err)
	return p, bufio.NewReader(out)
}

// locked runs a process that has the file at path locked, as whom is said.
func locked(t *testing.T, as *syscall.Credential, binary, path string) fence.Process {
	t.Helper()
	p, out := startAs(t, as, "lock", binary, path)
	if line, err := out.ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return p
}

// said returns what a command prints before it ends.
func said(t *testing.T, as *syscall.Credential, act string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environ(act)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// environ has no wait of a second at the end, as the race detector wants.
func environ(act string) []string {
	return append(os.Environ(), actVariable+"="+act, "GORACE=atexit_sleep_ms=0")
}

// emptyDataDir has an empty file in the place of the database.
func emptyDataDir(t *testing.T) (dataDir, db string) {
	t.Helper()
	dataDir = t.TempDir()
	db = fence.DB(dataDir)
	must(t, os.MkdirAll(filepath.Dir(db), 0o755))
	must(t, os.WriteFile(db, make([]byte, 8192), 0o666))
	return dataDir, db
}

func alive(t *testing.T, p fence.Process) bool {
	t.Helper()
	is, err := p.Alive()
	must(t, err)
	return is
}

// serves reports whether an etcd answers linearizable reads.
func serves(t *testing.T, e *etcdtest.Etcd) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Endpoint()+"/health", nil)
	must(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// neverServes looks for a while.
func neverServes(t *testing.T, e *etcdtest.Etcd) {
	t.Helper()
	for end := time.Now().Add(settle); time.Now().Before(end); {
		if serves(t, e) {
			t.Fatal("etcd serves behind the fence")
		}
		pause(t, 20*time.Millisecond)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// mentioning returns the processes with a word in their command line.
func mentioning(t *testing.T, word string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var found []string
	for _, line := range lines {
		if content, err := os.ReadFile(line); err == nil && strings.Contains(string(content), word) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}

// socket returns a path for a unix socket, which must be short.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fence") //nolint:usetesting // that would be too long a path
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s:1") // etcd wants a port
}
