package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// serve runs etcd-ferry server and returns its base URL, and a function that
// asks it to end and returns its exit code.
func serve(t *testing.T, args ...string) (url string, stop func() int) {
	t.Helper()
	cmd := command(t.Context(), append([]string{"server", "--listen=127.0.0.1:0", "--log-format=json"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	address := ""
	for address == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("not JSON: %s", lines.Text())
		}
		address = line.Address
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, stderr) }()
	stop = func() int {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { stop() })
	return "http://" + address, stop
}

// ask returns the answer to a request; it wants the status.
func ask(t *testing.T, method, url string, status int) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		t.Errorf("%s %s: status %d, %v: %s", method, url, response.StatusCode, err, body)
	}
	return string(body)
}

func TestServer(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	url, stop := serve(t, store, endpoints(source), "--delta-period=1h") // only when asked
	ask(t, http.MethodGet, url+"/healthz", http.StatusOK)
	ask(t, http.MethodPost, url+"/snapshot/full", http.StatusOK)
	revision := source.Fill(t, 500, 100)
	ask(t, http.MethodPost, url+"/snapshot/delta", http.StatusOK)
	for _, metric := range []string{
		`etcd_ferry_build_info{version="v0.0.0-e2e"} 1`, "etcd_ferry_snapshots_total", `etcd_ferry_store_calls_total{op="create"`, "go_goroutines",
	} {
		if !strings.Contains(ask(t, http.MethodGet, url+"/metrics", http.StatusOK), metric) {
			t.Errorf("%s is missing in /metrics", metric)
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	dataDir := filepath.Join(t.TempDir(), "etcd")
	must(t, "restore", store, "--data-dir", dataDir)
	checkSame(t, source, dataDir, revision)
}

func TestServerThatCannotListen(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	taken := strings.TrimPrefix(source.Endpoint(), "http://")
	ferry(t, "server", store, endpoints(source), "--listen", taken).wantFailure(t, 1, "listen", taken)
}
