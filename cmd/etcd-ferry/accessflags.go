package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/web"
)

// tlsFlags name the certificate of whatever answers HTTP.
type tlsFlags struct{ web.TLS }

func (f *tlsFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.CertFile, "tls-cert", "", "`file` with the server's certificate; read again when it changes")
	fs.StringVar(&f.KeyFile, "tls-key", "", "`file` with its key")
	fs.StringVar(&f.ClientCAFile, "tls-client-ca", "", "`file` with the CA of client certificates; who has none may still read")
}

func (f *tlsFlags) check() error {
	var errs []error
	if (f.CertFile == "") != (f.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key go together"))
	}
	if f.ClientCAFile != "" && f.CertFile == "" {
		errs = append(errs, errors.New("--tls-client-ca needs --tls-cert and --tls-key"))
	}
	return errors.Join(errs...)
}

// listen opens an address, with TLS if there is a certificate.
func (f *tlsFlags) listen(ctx context.Context, address string, log *slog.Logger, m *web.Metrics) (net.Listener, error) {
	certificates, err := f.Open()
	if err != nil {
		return nil, err
	}
	if certificates != nil {
		certificates.Log, certificates.Metrics = log, m
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return certificates.Over(l), nil
}

// accessFlags say on what a server answers, and to whom.
type accessFlags struct {
	socket         string
	tls            tlsFlags
	access         server.Access
	pprof          string
	pprofElsewhere bool
}

func (f *accessFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.socket, "socket", "", "unix socket to answer on too, at this `path`; whoever may open it may do everything")
	f.tls.flags(fs)
	fs.StringSliceVar(&f.access.Names, "tls-allowed-san", nil,
		"`names` of which a client certificate must have one to change something")
	fs.StringVar(&f.access.TokenFile, "auth-token-file", "",
		"`file` with the bearer token of whoever may change something; without it and --tls-allowed-san that is whoever is on this machine")
	fs.StringVar(&f.pprof, "pprof-listen", "", "`address` to answer /debug/pprof on, to whoever asks there; default: nowhere")
	fs.BoolVar(&f.pprofElsewhere, "pprof-from-anywhere", false, "let --pprof-listen be an address that other machines reach")
}

func (f *accessFlags) check() error {
	errs := []error{f.tls.check()}
	if len(f.access.Names) > 0 && f.tls.ClientCAFile == "" {
		errs = append(errs, errors.New("--tls-allowed-san needs --tls-client-ca"))
	}
	if f.pprof != "" && !f.pprofElsewhere {
		if err := web.CheckLoopback(f.pprof); err != nil {
			errs = append(errs, fmt.Errorf("--pprof-listen: %w; it tells what is in memory: give --pprof-from-anywhere if it may be told to all", err))
		}
	}
	if f.pprof == "" && f.pprofElsewhere {
		errs = append(errs, errors.New("--pprof-from-anywhere needs --pprof-listen"))
	}
	return errors.Join(errs...)
}

func (f *accessFlags) apply(d *server.Daemon, m *web.Metrics) {
	d.Socket, d.TLS, d.Access, d.Profiles, d.Web, d.Version = f.socket, f.tls.TLS, f.access, f.pprof, m, buildVersion()
}

// checkListen wants host:port.
func checkListen(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--listen %q: want for example %s", address, server.DefaultListen)
	}
	return nil
}
