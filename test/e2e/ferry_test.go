package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// runTimeout ends a command that hangs.
const runTimeout = 2 * time.Minute

var binary string

func TestMain(m *testing.M) {
	os.Exit(proc.Main(m, func(dir string) (err error) {
		binary, err = proc.Build(dir, "etcd-ferry", "-ldflags", "-X main.version=v0.0.0-e2e")
		return err
	}))
}

// outcome is how a command line ended.
type outcome struct {
	line           string
	code           int
	stdout, stderr string
}

// ferry runs the binary to its end.
func ferry(t *testing.T, args ...string) outcome {
	t.Helper()
	return ferryWith(t, nil, args...)
}

// ferryWith is ferry with more environment variables, of the form "NAME=value".
func ferryWith(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := command(ctx, args...)
	cmd.Env = append(cmd.Env, environ...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("etcd-ferry %s: %v\n%s%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), stdout.String(), stderr.String())
	}
	return outcome{strings.Join(args, " "), cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ETCD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// must runs the binary and wants exit code 0.
func must(t *testing.T, args ...string) outcome {
	t.Helper()
	return ferry(t, args...).wantSuccess(t)
}

func (o outcome) wantSuccess(t *testing.T) outcome {
	t.Helper()
	if o.code != 0 {
		t.Fatalf("etcd-ferry %s: exit code %d\n%s%s", o.line, o.code, o.stdout, o.stderr)
	}
	return o
}

// wantFailure checks the exit code and what stderr says.
func (o outcome) wantFailure(t *testing.T, code int, says ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("etcd-ferry %s: exit code %d, want %d", o.line, o.code, code)
	}
	for _, part := range append(says, "error: ") {
		if !strings.Contains(o.stderr, part) {
			t.Errorf("etcd-ferry %s: %q is missing in:\n%s", o.line, part, o.stderr)
		}
	}
}

// decode reads JSON from stdout.
func decode[T any](t *testing.T, o outcome) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(o.stdout), &v); err != nil {
		t.Fatalf("etcd-ferry %s: %v in %s", o.line, err, o.stdout)
	}
	return v
}

// The JSON that these tests look at.
type (
	manifest struct {
		Name  string `json:"name"`
		Kind  string `json:"kind"`
		First int64  `json:"firstRevision"`
		Last  int64  `json:"lastRevision"`

		Lineage string `json:"lineage"`
	}
	window struct {
		First int64 `json:"firstRevision"`
		Last  int64 `json:"lastRevision"`
	}
	listing struct {
		Snapshots []manifest `json:"snapshots"`
		Windows   []window   `json:"windows"`
		Problems  []struct {
			Name string `json:"name"`
		} `json:"problems"`
		Strays  []string `json:"strays"`
		Foreign int      `json:"foreign"`
	}
	restored struct {
		Revision   int64  `json:"revision"`
		Current    int64  `json:"currentRevision"`
		MovedAside string `json:"movedAside"`
		Start      string `json:"start"`
	}
)

// newStore returns a directory for snapshots and the flag that names it.
func newStore(t *testing.T) (dir, flag string) {
	t.Helper()
	dir = t.TempDir()
	return dir, "--store=file://" + dir
}

func endpoints(e *etcdtest.Etcd) string { return "--etcd-endpoints=" + e.Endpoint() }

// take stores a snapshot and returns its manifest.
func take(t *testing.T, kind, store string, e *etcdtest.Etcd) manifest {
	t.Helper()
	return decode[manifest](t, must(t, "snapshot", kind, store, endpoints(e), "-o", "json"))
}
