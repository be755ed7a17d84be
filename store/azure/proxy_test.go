package azure_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// meddler decides on the answer to a request. No answer breaks the connection.
type meddler func(r *http.Request, forward func() *http.Response) *http.Response

// proxy returns the endpoint of a proxy before a server.
func proxy(t *testing.T, server *storeservers.Azurite, meddle meddler) string {
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
	return front.URL + "/" + server.Account
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
