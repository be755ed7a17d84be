package storeservers

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Toxiproxy puts bad lines before other servers.
type Toxiproxy struct{ *Server }

// StartToxiproxy runs a server without lines.
func StartToxiproxy(t testing.TB) *Toxiproxy {
	t.Helper()
	return &Toxiproxy{start(t, command{
		program: "toxiproxy",
		args: func(address string) []string {
			host, port, _ := net.SplitHostPort(address)
			return []string{"-host=" + host, "-port=" + port}
		},
		ready: "/version",
	})}
}

// Line is a TCP connection to a server that can be made bad.
type Line struct {
	// URL is that of the server, as seen through the line.
	URL string

	toxics string // URL
}

// Toxic is what a line can suffer from; Toxiproxy's manual has all kinds and
// their attributes.
type Toxic struct {
	Type string `json:"type"`
	// Stream is upstream, towards the server, or downstream, which is the preset.
	Stream     string           `json:"stream,omitempty"`
	Attributes map[string]int64 `json:"attributes"`
}

// Line returns a new line to a server, a good one. What the server calls itself
// in its answers is the server's matter.
func (p *Toxiproxy) Line(t testing.TB, to string) *Line {
	t.Helper()
	scheme, address, _ := strings.Cut(to, "://")
	address, path, _ := strings.Cut(address, "/")
	var made struct{ Name, Listen string }
	p.call(t, http.MethodPost, p.URL+"/proxies", map[string]any{
		"name": rand.Text(), "upstream": address, "listen": "127.0.0.1:0", "enabled": true,
	}, &made)
	l := &Line{URL: scheme + "://" + made.Listen, toxics: p.URL + "/proxies/" + made.Name + "/toxics"}
	if path != "" {
		l.URL += "/" + path
	}
	return l
}

// Suffer makes the line suffer until heal is called.
func (p *Toxiproxy) Suffer(t testing.TB, l *Line, toxics ...Toxic) (heal func()) {
	t.Helper()
	var names []string
	for _, toxic := range toxics {
		var added struct{ Name string }
		p.call(t, http.MethodPost, l.toxics, toxic, &added)
		names = append(names, added.Name)
	}
	return func() {
		for _, name := range names {
			p.call(t, http.MethodDelete, l.toxics+"/"+name, nil, nil)
		}
	}
}

// SufferFor makes the line suffer for a time, which passes before it returns.
func (p *Toxiproxy) SufferFor(t testing.TB, d time.Duration, l *Line, toxics ...Toxic) {
	t.Helper()
	heal := p.Suffer(t, l, toxics...)
	time.Sleep(d) //nolint:forbidigo // it is the time of other processes
	heal()
}

// call asks the server's API. It may be called beside the test's goroutine.
func (p *Toxiproxy) call(t testing.TB, method, url string, body, answer any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
		return
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(data))
	if err != nil {
		t.Error(err)
		return
	}
	request.Close = true // on a connection that the server is closing it would fail, and a POST is not repeated
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	if err == nil && answer != nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Errorf("%s %s: %s %s, %v", method, url, response.Status, data, err)
	}
}
