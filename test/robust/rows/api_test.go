package rows

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// web is for questions to sidecars; none takes longer than a gate's.
var web = &http.Client{Timeout: 40 * time.Second}

// ask returns the status of an answer and its body; 0 if there is none.
func ask(t *testing.T, method, url string, body ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(strings.Join(body, "")))
	if err != nil {
		t.Fatal(err)
	}
	response, err := web.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}

// initiate wants a hand-over of the deployment.
func (d *deployment) initiate() {
	d.t.Helper()
	if status, body := ask(d.t, http.MethodPost, d.members[0].url("/copyop/initiate")); status != http.StatusCreated {
		d.t.Fatalf("initiate: %d %s", status, body)
	}
}

// progress is what /copyop/status says; the status is 0 if nobody answers.
func (m *member) progress(t *testing.T, query string) (int, server.Progress) {
	t.Helper()
	status, body := ask(t, http.MethodGet, m.url("/copyop/status"+query))
	var p server.Progress
	if status != 0 {
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatalf("%d %s: %v", status, body, err)
		}
	}
	return status, p
}

// until returns when every member has one of the roles.
func (d *deployment) until(roles ...server.Role) {
	d.t.Helper()
	for _, m := range d.members {
		eventually(d.t, m.name+" becomes one of "+join(roles), func() bool {
			_, p := m.progress(d.t, "")
			return slices.Contains(roles, p.Role)
		})
	}
}

func join(roles []server.Role) string {
	var words []string
	for _, r := range roles {
		words = append(words, string(r))
	}
	return strings.Join(words, " ")
}

// metric returns the value of a metric by its name with labels; 0 if nobody
// answers.
func (m *member) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body := ask(t, http.MethodGet, m.url("/metrics"))
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// job is a command of the program that ends by itself.
type job struct {
	t              *testing.T
	line           string
	stdout, stderr text
	cmd            *exec.Cmd
	process        *proc.Process
}

func begin(t *testing.T, args ...string) *job {
	t.Helper()
	return beginAs(t, exec.Command(binary, args...))
}

func beginAs(t *testing.T, cmd *exec.Cmd) *job {
	t.Helper()
	j := &job{t: t, line: strings.Join(cmd.Args[1:], " "), cmd: cmd}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	var err error
	if j.process, err = proc.Start(j.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		j.process.Kill()
		if t.Failed() {
			t.Logf("etcd-ferry %s:\n%s", j.line, j.stderr.String())
		}
	})
	return j
}

// copyTo starts what takes d's etcd over.
func (d *deployment) copyTo(id string, to container, flags ...string) *job {
	d.t.Helper()
	return begin(d.t, d.copying(id, to, flags...)...)
}

func (d *deployment) copying(id string, to container, flags ...string) []string {
	return slices.Concat([]string{"copy", "--owner-id", id, "-o", "json", "--log-level", "debug"},
		d.Store.flags("source-store"), to.flags("store"), d.Pace.copying, flags)
}

// want waits for the end of the command and wants an exit code, and words on
// stderr.
func (j *job) want(code int, words ...string) *job {
	j.t.Helper()
	if got := j.code(); got != code {
		j.t.Fatalf("etcd-ferry %s: exit code %d, want %d\n%s", j.line, got, code, tail(j.stderr.String()))
	}
	for _, word := range words {
		if !strings.Contains(j.stderr.String(), word) {
			j.t.Errorf("etcd-ferry %s: %q is missing in:\n%s", j.line, word, tail(j.stderr.String()))
		}
	}
	return j
}

// code waits for the end of the command and returns its exit code; -1 if it was
// killed.
func (j *job) code() int {
	j.t.Helper()
	select {
	case <-j.process.Ended():
	case <-time.After(patience):
		j.process.Signal(syscall.SIGQUIT)
		j.t.Fatalf("etcd-ferry %s: still there after %v", j.line, patience)
	}
	return j.cmd.ProcessState.ExitCode()
}

// outcome is what a copy has printed.
func (j *job) outcome() copier.Outcome {
	j.t.Helper()
	var o copier.Outcome
	if err := json.Unmarshal([]byte(j.stdout.String()), &o); err != nil {
		j.t.Fatalf("%v: %s", err, j.stdout.String())
	}
	return o
}

// text is what a process writes, to be read meanwhile.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

func tail(s string) string { return s[max(0, len(s)-4<<10):] }
