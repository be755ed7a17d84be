package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// readmeBlock returns the command lines, split into words, of the README's block
// of commands that mentions something.
func readmeBlock(t *testing.T, mentions string) (lines [][]string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(block[1], mentions) {
			continue
		}
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, "#")
			if words := strings.Fields(line); len(words) > 1 && words[0] == "etcd-ferry" {
				lines = append(lines, words[1:])
			}
		}
	}
	return lines
}

func replaceIn(words []string, oldnew ...string) []string {
	r := strings.NewReplacer(oldnew...)
	replaced := make([]string, len(words))
	for i, w := range words {
		replaced[i] = r.Replace(w)
	}
	return replaced
}

// TestReadme runs the commands of the README's quick start as they stand there,
// with other directories and another etcd. (make demo is TestDemo.)
func TestReadme(t *testing.T) {
	e := etcdtest.Start(t)
	e.Fill(t, 100, 100)
	dir := t.TempDir()
	lines := readmeBlock(t, "/var/backups/etcd")
	if len(lines) < 4 {
		t.Fatalf("only %d commands found in the README", len(lines))
	}
	for _, words := range lines {
		words = replaceIn(words, "/var/backups/etcd", filepath.Join(dir, "backups"),
			"/var/lib/etcd", filepath.Join(dir, "data"), "http://127.0.0.1:2379", e.Endpoint())
		if words[0] != "server" {
			must(t, words...)
			continue
		}
		url, stop := serve(t, words[1:]...)
		await(t, url+"/snapshot/latest") // until the first full is stored
		if code := stop(); code != 0 {
			t.Errorf("%v: exit code %d", words, code)
		}
	}
}

// TestReadmeHandOver ferries a real etcd with the commands of the README, in other
// directories, at other addresses, and without the long pauses between two looks.
func TestReadmeHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var url, endpoint string // of the server that was started last, and its etcd
	var written int64
	ran := map[string]int{}
	for _, words := range readmeBlock(t, "--owner-id") {
		command := words[0]
		ran[command]++
		switch words = replaceIn(words[1:], "file:///mnt/", "file://"+dir+"/", "/var/lib/", dir+"/"); command {
		case "server":
			endpoint = "http://" + proc.Address(t)
			url, _ = serve(t, append(replaceIn(words, "http://127.0.0.1:2379", endpoint), "--poll-period=200ms")...)
		case "gate":
			gateLine(t, url, endpoint, words)
			await(t, url+"/healthz")
			if ran["copy"] == 0 {
				written = writeOne(t, endpoint)
			}
		default:
			must(t, append([]string{command}, append(words, "--poll-period=200ms")...)...)
		}
	}
	if ran["server"] != 2 || ran["gate"] != 2 || ran["copy"] != 1 {
		t.Fatalf("the README has %v", ran)
	}
	c := dial(t, endpoint)
	r, err := c.Get(t.Context(), "ferried")
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].ModRevision != written {
		t.Errorf("want the key of revision %d at the destination: %v %v", written, r, err)
	}
}

// gateLine runs etcd behind the gate until the test ends.
func gateLine(t *testing.T, server, endpoint string, words []string) {
	t.Helper()
	at := slices.Index(words, "--")
	if at < 0 || words[at+1] != "etcd" {
		t.Fatalf("not a gate before an etcd: %v", words)
	}
	etcd := append([]string{etcdtest.Tool(t, etcdtest.Newest, "etcd")}, words[at+2:]...)
	etcd = append(etcd, "--listen-client-urls="+endpoint, "--advertise-client-urls="+endpoint, "--listen-peer-urls=http://127.0.0.1:0")
	p, err := proc.Start(command(context.WithoutCancel(t.Context()), append([]string{"gate", "--server", server, "--"}, etcd...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
}

// await waits until a GET answers 200.
func await(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(runTimeout); time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // another process has no virtual time
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatalf("%s does not answer 200", url)
}

func dial(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: runTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func writeOne(t *testing.T, endpoint string) (revision int64) {
	t.Helper()
	r, err := dial(t, endpoint).Put(t.Context(), "ferried", "byte for byte")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
