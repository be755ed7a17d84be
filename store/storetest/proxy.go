package storetest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Meddler decides on the answer to a request. No answer breaks the connection.
type Meddler func(r *http.Request, forward func() *http.Response) *http.Response

// Proxy returns the URL of a proxy before a server without TLS.
func Proxy(t *testing.T, server string, meddle Meddler) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // S3 signs it
		},
		Transport:    meddle,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	p.ModifyResponse = func(r *http.Response) error { // the chunks of an upload shall pass here too
		if at := r.Header.Get("Location"); at != "" {
			r.Header.Set("Location", strings.Replace(at, server, front.URL, 1))
		}
		return nil
	}
	return front.URL
}

// RoundTrip implements http.RoundTripper.
func (m Meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	response := m(r, func() (response *http.Response) {
		response, err = http.DefaultTransport.RoundTrip(r)
		return response
	})
	if response == nil && err == nil {
		err = http.ErrAbortHandler
	}
	return response, err
}

// Answer is an answer without a body.
func Answer(r *http.Request, status int, header http.Header) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: header, Request: r}
}

// Answering returns the URL of a server that always gives the same answer.
func Answering(t *testing.T, status int, header http.Header, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Everything makes every call on a store, on the objects a and b, and returns how
// they ended. Big bytes are created too, if it is above 0.
func Everything(t *testing.T, s store.Store, big int64) map[string]error {
	t.Helper()
	errs := map[string]error{}
	_, errs["list"] = s.List(t.Context(), "")
	_, _, errs["open"] = s.Open(t.Context(), "a")
	_, _, errs["read"] = s.Read(t.Context(), "a")
	_, errs["create"] = s.Create(t.Context(), "a", strings.NewReader("x"))
	if big > 0 {
		_, errs["create in parts"] = s.Create(t.Context(), "b", stream(big))
	}
	_, errs["first swap"] = s.Swap(t.Context(), "a", "", []byte("x"))
	_, errs["swap"] = s.Swap(t.Context(), "a", "1", []byte("x"))
	errs["remove"] = s.Remove(t.Context(), "a")
	return errs
}

// RunResume tests that what breaks off is read on, and not from the start. The
// stores that open returns are one, at the URLs of a server and of a proxy
// before it.
func RunResume(t *testing.T, server string, open func(url string) store.Store) {
	content := strings.Repeat("0123456789", 100_000)
	create(t, open(server), "a", content)
	var ranges []string
	retried := store.Retry(store.Prefix(open(Proxy(t, server, func(r *http.Request, forward func() *http.Response) *http.Response {
		response := forward()
		if r.Method == http.MethodGet {
			ranges = append(ranges, r.Header.Get("Range")+r.Header.Get("X-Ms-Range"))
			response.Body = io.NopCloser(io.LimitReader(response.Body, 400_000))
		}
		return response
	})), ""))
	retried.Base = 1
	body, _, err := retried.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); string(got) != content || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if len(ranges) < 3 || ranges[0] != "" || ranges[1] == "" || ranges[1] == ranges[2] {
		t.Errorf("it asked for the ranges %q", ranges)
	}
}
