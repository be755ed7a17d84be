package main

import (
	"strings"
	"testing"
)

func TestRemoteFlags(t *testing.T) {
	for _, c := range []struct {
		flags remoteFlags
		want  string // contained in the complaint; empty: none
	}{
		{remoteFlags{server: "http://127.0.0.1:8080"}, ""},
		{remoteFlags{server: "http://source.example:8080"}, ""},
		{remoteFlags{server: "unix:///run/ferry.sock"}, ""},
		{remoteFlags{server: "127.0.0.1:8080"}, "want http://"},
		{remoteFlags{server: "localhost:8080"}, "want http://"},
		{remoteFlags{server: "unix://run/ferry.sock"}, "want http://"},
		{remoteFlags{server: "ftp://source.example"}, "want http://"},
		{remoteFlags{server: "https://a", cert: "c"}, "go together"},
		{remoteFlags{server: "http://127.0.0.1:8080", tokenFile: "t"}, ""},
		{remoteFlags{server: "http://[::1]:8080", tokenFile: "t"}, ""},
		{remoteFlags{server: "http://localhost:8080", tokenFile: "t"}, ""},
		{remoteFlags{server: "https://source.example", tokenFile: "t"}, ""},
		{remoteFlags{server: "unix:///run/ferry.sock", tokenFile: "t"}, ""},
		{remoteFlags{server: "http://source.example:8080", tokenFile: "t"}, "use https"},
	} {
		err := c.flags.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.flags, err, c.want)
		}
	}
}
