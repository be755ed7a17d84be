package web

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
)

// Profiles answers what Go tells of a running program under /debug/pprof/. It shows
// memory and command line, and takes time: it has a listener of its own.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// CheckLoopback wants an address, host:port, that only this machine can reach.
func CheckLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return fmt.Errorf("%q can be reached from other machines: want for example 127.0.0.1:6060", address)
	}
	return nil
}
