package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/server"
)

// accessFlags say on what a server answers, and to whom.
type accessFlags struct {
	socket string
	tls    server.TLS
	access server.Access
}

func (f *accessFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.socket, "socket", "", "unix socket to answer on too, at this `path`; whoever may open it may do everything")
	fs.StringVar(&f.tls.CertFile, "tls-cert", "", "`file` with the server's certificate; read again when it changes")
	fs.StringVar(&f.tls.KeyFile, "tls-key", "", "`file` with its key")
	fs.StringVar(&f.tls.ClientCAFile, "tls-client-ca", "", "`file` with the CA of client certificates")
	fs.StringSliceVar(&f.access.Names, "tls-allowed-san", nil,
		"`names` of which a client certificate must have one to change something")
	fs.StringVar(&f.access.TokenFile, "auth-token-file", "",
		"`file` with the bearer token of whoever may change something; without it and --tls-allowed-san that is whoever is on this machine")
}

func (f *accessFlags) check() error {
	var errs []error
	if (f.tls.CertFile == "") != (f.tls.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key go together"))
	}
	if f.tls.ClientCAFile != "" && f.tls.CertFile == "" {
		errs = append(errs, errors.New("--tls-client-ca needs --tls-cert and --tls-key"))
	}
	if len(f.access.Names) > 0 && f.tls.ClientCAFile == "" {
		errs = append(errs, errors.New("--tls-allowed-san needs --tls-client-ca"))
	}
	return errors.Join(errs...)
}

func (f *accessFlags) apply(d *server.Daemon) {
	d.Socket, d.TLS, d.Access = f.socket, f.tls, f.access
}

// checkListen wants host:port.
func checkListen(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--listen %q: want for example %s", address, server.DefaultListen)
	}
	return nil
}
