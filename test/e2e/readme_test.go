package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestReadme runs the commands of the README's quick start as they stand there,
// with other directories and another etcd. (make demo is TestDemo.)
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	e := etcdtest.Start(t)
	e.Fill(t, 100, 100)
	dir := t.TempDir()
	replace := strings.NewReplacer(
		"/var/backups/etcd", filepath.Join(dir, "backups"),
		"/var/lib/etcd", filepath.Join(dir, "data"),
		"http://127.0.0.1:2379", e.Endpoint(),
	)
	ran := 0
	for line := range strings.Lines(string(readme)) {
		line, _, _ = strings.Cut(line, "#")
		args := strings.Fields(replace.Replace(line))
		if len(args) < 2 || args[0] != "etcd-ferry" || !strings.HasPrefix(line, "etcd-ferry ") {
			continue
		}
		ran++
		if args[1] != "server" {
			must(t, args[1:]...)
			continue
		}
		url, stop := serve(t, args[2:]...)
		for status := 0; status != http.StatusOK; { // until the first full is stored
			response, err := http.Get(url + "/snapshot/latest")
			if err != nil {
				t.Fatal(err)
			}
			status = response.StatusCode
			response.Body.Close()
		}
		if code := stop(); code != 0 {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
	if ran < 4 {
		t.Errorf("only %d commands found in the README", ran)
	}
}
