package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

// secrets are values that must not be seen, by what they are.
type secrets map[string]string

// forms are the ways in which a secret can be written.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	raw := []byte(secret)
	all := []string{
		secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw), fmt.Sprintf("%x", raw),
	}
	if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil {
		all = append(all, fmt.Sprintf("%x", decoded))
	}
	return all
}

// found returns which secrets are in a text. A secret of several lines is there
// when one of its lines is.
func (s secrets) found(text string) []string {
	var names []string
	for name, secret := range s {
		lines := strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' })
		if slices.ContainsFunc(lines, func(line string) bool {
			return slices.ContainsFunc(forms(line), func(form string) bool { return strings.Contains(text, form) })
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// observation is something that an outsider can see.
type observation struct{ where, text string }

// leaks returns what is to be seen where, as "where: secret".
func (s secrets) leaks(seen []observation) []string {
	var leaks []string
	for _, o := range seen {
		for _, name := range s.found(o.text) {
			leaks = append(leaks, o.where+": "+name)
		}
	}
	return leaks
}

// scene is one way to run every command.
type scene struct {
	store, etcd, recipients, identities []string // flags
	environ                             []string
	fails                               func(command string) bool // what is to be expected
}

// source returns the flags of the store, for a copy from it.
func (s scene) source() []string {
	var flags []string
	for _, flag := range s.store {
		flags = append(flags, strings.Replace(flag, "--store", "--source-store", 1))
	}
	return flags
}

// lines are the command lines of a scene but for the server's, by name. They are
// in the order in which they work.
func (s scene) lines(t *testing.T) (names []string, lines map[string][]string) {
	t.Helper()
	dir := t.TempDir()
	lines = map[string][]string{}
	add := func(name string, words []string, flags ...[]string) {
		names = append(names, name)
		lines[name] = append(slices.Concat(append([][]string{words}, flags...)...), "--log-level=debug")
	}
	add("snapshot full", []string{"snapshot", "full"}, s.store, s.etcd, s.recipients)
	add("snapshot delta", []string{"snapshot", "delta"}, s.store, s.etcd, s.recipients)
	add("list", []string{"list", "-o=json"}, s.store)
	add("verify", []string{"verify"}, s.store, s.etcd, s.identities)
	add("copy from", []string{"copy", "--manual", "--store=file://" + filepath.Join(dir, "copy")}, s.source())
	if s.fails("copy to") { // else there are the same snapshots already
		add("copy to", []string{"copy", "--manual", "--source-store=file://" + filepath.Join(dir, "copy")}, s.store)
	}
	live := strings.Replace(s.etcd[0], "--etcd-endpoints", "--verify-against", 1)
	add("restore", []string{"restore", live, "--data-dir=" + filepath.Join(dir, "etcd")}, s.store, s.etcd[1:], s.identities)
	add("prune", []string{"prune", "--keep-last=1"}, s.store)
	add("doctor", []string{"doctor", "--timeout=20s"}, s.store, s.etcd, s.recipients, s.identities)
	return names, lines
}

// observe runs every command, and returns all that is to be seen of them.
func (s scene) observe(t *testing.T) []observation {
	t.Helper()
	var seen []observation
	var mu sync.Mutex
	var g errgroup.Group
	names, lines := s.lines(t)
	run := func(name string) {
		o := ferryWith(t, s.environ, lines[name]...)
		if (o.code != 0) != s.fails(name) {
			t.Errorf("%s: exit code %d\n%s%s", name, o.code, o.stdout, o.stderr)
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, observation{name + ", stdout", o.stdout}, observation{name + ", stderr", o.stderr})
	}
	for _, name := range names {
		if s.fails(name) {
			g.Go(func() error { run(name); return nil })
		} else {
			run(name) // one after the other, since they build on each other
		}
	}
	_ = g.Wait() // there are no errors
	return append(seen, s.observeServer(t)...)
}

// observeServer looks at a sidecar from all sides.
func (s scene) observeServer(t *testing.T) []observation {
	t.Helper()
	args := slices.Concat([]string{"server", "--listen=127.0.0.1:0", "--delta-period=1h"}, s.store, s.etcd, s.recipients)
	return watched(t, s.environ, args, func(base string) []observation { return s.askServer(t, base) })
}

// watched runs a command that listens, has ask look at it when it does, ends it, and
// returns all that is to be seen of it.
func watched(t *testing.T, environ, args []string, ask func(base string) []observation) []observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	name := args[0]
	cmd := command(ctx, append(args, "--log-level=debug", "--log-format=json")...)
	cmd.Env = append(cmd.Env, environ...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []observation
	log, address := bufio.NewScanner(stderr), ""
	var logged strings.Builder
	for address == "" && log.Scan() {
		var line struct{ Address string }
		_ = json.Unmarshal(log.Bytes(), &line) // an error ends the command, and is no JSON
		address = line.Address
		logged.WriteString(log.Text() + "\n")
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for log.Scan() {
			logged.WriteString(log.Text() + "\n")
		}
	}()
	if address != "" {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		if err != nil || len(argv) == 0 {
			t.Errorf("the command line of the %s is %q, %v", name, argv, err)
		}
		seen = append(seen, observation{name + ", argv", string(argv)})
		seen = append(seen, ask("http://"+address)...)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-drained
	_ = cmd.Wait() // its exit code is looked at elsewhere
	return append(seen, observation{name + ", log", logged.String()}, observation{name + ", stdout", stdout.String()})
}

// requests are what a sidecar is asked, in an order in which they work.
func requests() []string {
	return []string{
		"GET /livez", "GET /healthz", "POST /snapshot/full", "POST /snapshot/delta", "GET /snapshots", "GET /snapshot/latest",
		"GET /owner", "GET /copyop/status", "GET /metrics", "GET /",
	}
}

// askServer returns all answers of a sidecar.
func (s scene) askServer(t *testing.T, base string) []observation {
	t.Helper()
	seen := make([]observation, len(requests()))
	var g errgroup.Group
	if !s.fails("server") {
		g.SetLimit(1)
	}
	for i, line := range requests() {
		g.Go(func() error {
			status, text := answer(t, base, line)
			if line == "POST /snapshot/full" && (status != http.StatusOK) != s.fails("server") {
				t.Errorf("%s: status %d: %s", line, status, text)
			}
			seen[i] = observation{"server, " + line, text}
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return seen
}

// answer returns the status, and all that the answer to a request shows.
func answer(t *testing.T, base, line string) (status int, text string) {
	method, path, _ := strings.Cut(line, " ")
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return response.StatusCode, fmt.Sprint(response.Header) + string(body)
}

// TestCanary looks for secrets in everything that every command shows.
func TestCanary(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	for name, scenes := range stage.scenes(t) {
		t.Run(name, func(t *testing.T) {
			for name, scene := range scenes {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					for _, leak := range stage.secrets.leaks(scene.observe(t)) {
						t.Errorf("to be seen in %s", leak)
					}
				})
			}
		})
	}
}

// TestCanaryIsFound plants a secret where it is shown: in the name of a store
// that does not exist.
func TestCanaryIsFound(t *testing.T) {
	t.Parallel()
	const canary = "cAn4ry+of/the=test"
	planted := secrets{"canary": canary}
	for _, form := range forms(canary) {
		if names := planted.found("before" + form + "after"); len(names) != 1 {
			t.Errorf("%q is not found", form)
		}
	}
	if names := (secrets{"key": "first line\nsecond line"}).found(`{"a":"second line"}`); len(names) != 1 {
		t.Error("a line of a secret is not found")
	}
	if names := planted.found("nothing of it"); len(names) > 0 {
		t.Errorf("found in nothing: %q", names)
	}
	s := scene{
		store: []string{"--store=file://" + filepath.Join(t.TempDir(), "none", canary)},
		etcd:  []string{"--etcd-endpoints=http://127.0.0.1:1"},
		fails: func(string) bool { return true },
	}
	leaks := planted.leaks(s.observe(t))
	for _, where := range []string{
		"list, stderr", "verify, stderr", "copy from, stderr", "restore, stderr", "prune, stderr",
		"doctor, stdout", "server, argv", "server, log", "server, GET /snapshots",
	} {
		if !slices.Contains(leaks, where+": canary") {
			t.Errorf("it is not found in %s, only in %q", where, leaks)
		}
	}
}
