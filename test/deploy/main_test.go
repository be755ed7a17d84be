package deploy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(proc.Main(m, func(dir string) (err error) {
		binary, err = proc.Build(dir, "etcd-ferry")
		return err
	}))
}

// ferry returns a command of ours. It has no variables but those given.
func ferry(t *testing.T, environ []string, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, words...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	return c
}

// explain adds what a command has said to how it ended.
func explain(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}

func seconds(t *testing.T, text string) int {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return int(d.Seconds())
}

// etcdVersions are those that are supported.
func etcdVersions(t *testing.T) (versions []string) {
	t.Helper()
	dirs, err := filepath.Glob("../../test/tools/etcd-*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no etcd: %v", err)
	}
	for _, d := range dirs {
		versions = append(versions, strings.TrimPrefix(filepath.Base(d), "etcd-"))
	}
	return versions
}

func etcdHelp(t *testing.T, version string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), proc.Tool(t, "etcd-"+version+"/etcd"), "--help").CombinedOutput()
	return string(out), err
}

// goList returns the folders of everything that the program is made of.
func goList(t *testing.T) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.Dir}}", "../../cmd/etcd-ferry").Output()
	return string(out), explain(err)
}
