package gcs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// meddler decides on the answer to a request. No answer breaks the connection.
type meddler func(r *http.Request, forward func() *http.Response) *http.Response

// proxy returns the URL of a proxy before a server.
func proxy(t *testing.T, server *storeservers.GCS, meddle meddler) string {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    meddle,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	p.ModifyResponse = func(r *http.Response) error { // the chunks of an upload shall pass here too
		r.Header.Set("Location", strings.Replace(r.Header.Get("Location"), server.URL, front.URL, 1))
		return nil
	}
	return front.URL
}

// RoundTrip implements http.RoundTripper.
func (m meddler) RoundTrip(r *http.Request) (*http.Response, error) {
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
