package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// TestCanaryOfAHandOver is TestCanary for what only those have who hand an etcd over:
// the token of the source's server, copyop, and copy mode.
func TestCanaryOfAHandOver(t *testing.T) {
	t.Parallel()
	known := secrets{}
	secret := func(name string) string {
		known[name] = "canary-" + rand.Text()
		return known[name]
	}
	server := storeservers.StartVersityGW(t)
	known["s3 key"] = server.SecretAccessKey
	right := map[string]string{"accessKeyID": server.AccessKeyID, "secretAccessKey": server.SecretAccessKey, "region": server.Region}
	tokens := folder(t, map[string]string{
		"token": secret("token") + "\n", "wrong": secret("wrong token"), "malformed": secret("malformed token") + "\nX: y",
	})
	source := fmt.Sprintf("s3://%s?endpoint=%s&pathStyle=true", server.Bucket(t), server.URL)
	wrong := folder(t, with(right, map[string]string{"secretAccessKey": secret("wrong s3 key")}))
	credentials := folder(t, right)

	args := []string{
		"server", "--listen=127.0.0.1:0", "--owner-id=A", "--store=" + source, "--store-credentials=" + credentials,
		"--data-dir=" + filepath.Join(t.TempDir(), "etcd"), "--etcd-endpoints=" + nowhere, "--auth-token-file=" + filepath.Join(tokens, "token"),
	}
	destination := func(credentials string) []string {
		return []string{
			"copy", "--listen=127.0.0.1:0", "--owner-id=B", "--source-store=" + source, "--source-store-credentials=" + credentials,
			"--store=file://" + t.TempDir(),
		}
	}
	seen := watched(t, nil, args, func(base string) []observation {
		for deadline := time.Now().Add(runTimeout); !strings.Contains(textOf(t, base, "GET /owner"), `"Owner"`); <-time.After(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not become the owner")
			}
		}
		seen := observeCopyop(t, base, tokens)
		seen = append(seen, watched(t, nil, destination(credentials), func(base string) []observation { return observeCopy(t, base) })...)
		// This one ends by itself, perhaps before it could be asked.
		seen = append(seen, watched(t, nil, destination(wrong), func(string) []observation {
			<-time.After(time.Second)
			return nil
		})...)
		return append(seen, observeToken(t, base, known["wrong token"])...)
	})
	for _, leak := range known.leaks(seen) {
		t.Errorf("to be seen in %s", leak)
	}
	var all strings.Builder
	for _, o := range seen {
		all.WriteString(o.where + "\n" + o.text + "\n")
	}
	for _, sign := range []string{"copyop initiate, token", "copy, GET /copyop/status", "audit"} { // that it was where it should be
		if !strings.Contains(all.String(), sign) {
			t.Errorf("nothing is seen of %q", sign)
		}
	}
}

func textOf(t *testing.T, base, line string) string {
	t.Helper()
	_, text := answer(t, base, line)
	return text
}

// observeCopyop asks for all there is, with each token and without.
func observeCopyop(t *testing.T, base, tokens string) (seen []observation) {
	t.Helper()
	for _, token := range []string{"token", "wrong", "malformed", ""} {
		flags := []string{"--server=" + base, "--log-level=debug"}
		if token != "" {
			flags = append(flags, "--token-file="+filepath.Join(tokens, token))
		}
		for _, verb := range []string{"initiate", "status", "abort"} {
			o := ferryWith(t, nil, append([]string{"copyop", verb}, flags...)...)
			if verb == "initiate" && (o.code == 0) != (token == "token") {
				t.Errorf("copyop initiate with %q: exit code %d\n%s", token, o.code, o.stderr)
			}
			name := "copyop " + verb + ", " + token
			seen = append(seen, observation{name + ", stdout", o.stdout}, observation{name + ", stderr", o.stderr})
		}
	}
	return seen
}

// observeToken sends a token as people do who have not read the manual.
func observeToken(t *testing.T, base, token string) (seen []observation) {
	t.Helper()
	for header, value := range map[string]string{"Authorization": token, "Cookie": "token=" + token, "X-Token": token} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/copyop/initiate?token="+token, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, value)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode < http.StatusBadRequest {
			t.Errorf("%s: %s", header, response.Status)
		}
		seen = append(seen, observation{"answer to " + header, fmt.Sprint(response.Header)})
	}
	return seen
}

// observeCopy looks at copy mode while it waits for its source.
func observeCopy(t *testing.T, base string) (seen []observation) {
	t.Helper()
	for _, line := range []string{"GET /healthz", "GET /livez", "GET /copyop/status", "GET /metrics"} {
		_, text := answer(t, base, line)
		seen = append(seen, observation{"copy, " + line, text})
	}
	<-time.After(time.Second) // for its log to say what the matter is
	return seen
}
