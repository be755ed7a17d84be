package storeservers

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// GCS is a fake-gcs-server. It holds objects in memory and asks nobody who he
// is. It ignores conditions when it deletes, rewrites or composes, and appends a
// chunk again that is sent again because its answer was lost.
type GCS struct{ *Server }

// StartGCS runs a server without buckets.
func StartGCS(t testing.TB) *GCS {
	t.Helper()
	return &GCS{start(t, command{
		program: "fake-gcs-server",
		args: func(address string) []string {
			host, port, _ := net.SplitHostPort(address)
			return []string{
				"-scheme=http", "-host=" + host, "-port=" + port, "-backend=memory", "-log-level=warn",
				"-public-host=" + host, "-external-url=http://" + address,
			}
		},
	})}
}

// MakeBucket makes an empty bucket.
func (g *GCS) MakeBucket(t testing.TB, name string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		g.URL+"/storage/v1/b?project=test", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("make bucket %s: %s", name, response.Status)
	}
}
