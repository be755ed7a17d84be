package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// A flipped byte is told within one period, and so is that the store is gone.
func TestVerifyAgainAndAgain(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	source.Fill(t, 100, 100)
	dir, store := newStore(t)
	full := take(t, "full", store, source)
	address := proc.Address(t)
	p, err := proc.Start(command(t.Context(), "verify", store, endpoints(source), "--listen="+address, "--period=200ms", "--temp-dir="+t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	await(t, "http://"+address+"/livez")
	scraped := ""
	says := func(line string) {
		t.Helper()
		for deadline := time.Now().Add(runTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // another process has no virtual time
			if response, err := http.Get("http://" + address + "/metrics"); err == nil {
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if scraped = string(text); strings.Contains(scraped, line+"\n") {
					return
				}
			}
		}
		t.Fatalf("it never says %s:\n%s", line, scraped)
	}
	says(`etcd_ferry_verification_result{result="ok"} 1`)
	revision := lineWith(scraped, "etcd_ferry_verified_revision ")
	corrupt(t, dir, full.Name, 0.5)
	says(`etcd_ferry_verification_result{result="invalid"} 1`)
	if now := lineWith(scraped, "etcd_ferry_verified_revision "); now != revision || revision == "0" {
		t.Errorf("verified is revision %s, it was %s", now, revision)
	}
	corrupt(t, dir, full.Name, 0.5) // as it was
	says(`etcd_ferry_verification_result{result="ok"} 1`)
	if err := os.Rename(filepath.Join(dir, "snapshots"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	says(`etcd_ferry_verification_result{result="error"} 1`)
	if !p.Stop() {
		t.Error("it does not end")
	}
}

// lineWith returns what follows a prefix on its line.
func lineWith(text, prefix string) string {
	_, rest, _ := strings.Cut(text, "\n"+prefix)
	line, _, _ := strings.Cut(rest, "\n")
	return line
}
