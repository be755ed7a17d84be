package main

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// database has one vulnerability, of a function of a module or none.
func database(t *testing.T, module, path, symbol string) string {
	t.Helper()
	const id, at = "GO-2026-9999", "2026-11-20T00:00:00Z"
	content := map[string]string{
		"/index/db.json.gz":      fmt.Sprintf(`{"modified":%q}`, at),
		"/index/modules.json.gz": fmt.Sprintf(`[{"path":%q,"vulns":[{"id":%q,"modified":%q}]}]`, module, id, at),
		"/ID/" + id + ".json.gz": fmt.Sprintf(`{"schema_version":"1.3.1","id":%q,"modified":%q,"published":%q,"details":"made up","affected":[
			{"package":{"name":%q,"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			 "ecosystem_specific":{"imports":[{"path":%q,"symbols":[%q]}]}}]}`, id, at, at, module, path, symbol),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := content[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		packed := gzip.NewWriter(w)
		defer packed.Close()
		fmt.Fprint(packed, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestLook(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	tool := proc.Tool(t, "govulncheck")
	for name, c := range map[string]struct {
		db, tool string
		code     int
		says     string
	}{
		"no network":             {gone.URL, tool, 0, "NOT LOOKED FOR"},
		"no database":            {refusing.URL, tool, 0, "NOT LOOKED FOR"},
		"a call of this program": {database(t, "stdlib", "net/http", "Client.Do"), tool, 1, "GO-2026-9999"},
		"of what is not called":  {database(t, "stdlib", "net/http", "ListenAndServe"), tool, 0, "affected by 0 vulnerabilities"},
		"no tool":                {database(t, "stdlib", "net/smtp", "SendMail"), "/no/such/tool", 1, "/no/such/tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if code := look(t.Context(), c.db, []string{c.tool, "."}, &out); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, out.String())
			}
		})
	}
}
