package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
)

// memberFlags say which member of which cluster a restored data dir is. They are
// named as etcd's.
type memberFlags struct{ options *restorer.Options }

func (f memberFlags) flags(fs *pflag.FlagSet) {
	o := f.options
	fs.StringVar(&o.EtcdVersion, "etcd-version", "", "`version` of the etcd that will run on the data dir; a snapshot that is too new for it is refused")
	fs.StringVar(&o.Name, "name", restorer.DefaultName, "`name` of the member")
	fs.StringVar(&o.InitialCluster, "initial-cluster", "", "members as `NAME=URL,...`; default: this one, at "+restorer.DefaultPeerURL)
	fs.StringVar(&o.InitialClusterToken, "initial-cluster-token", "", "`token` that the cluster id is made from; default: a new one")
	fs.StringSliceVar(&o.PeerURLs, "initial-advertise-peer-urls", nil, "peer `URLs` of the member; default: those in --initial-cluster")
}

// bootstrapFlags say how the owner's data dir is restored when that has to be.
type bootstrapFlags struct {
	options restorer.Options
	keys    identityFlags
	accept  string
	bump    int64
}

func (f *bootstrapFlags) flags(fs *pflag.FlagSet) {
	memberFlags{&f.options}.flags(fs)
	f.keys.flags(fs)
	fs.StringVar(&f.accept, "accept-data-dir", "",
		"let etcd in on a data dir that nothing is known of, if it is in this `state`; the refusal says what to give")
	fs.Int64Var(&f.bump, "restore-bump-revision", bootstrap.DefaultBump,
		"add `N` to the revision if the owner's data dir had to be restored and writes may be lost")
}

func (f *bootstrapFlags) check() error {
	err := f.options.Validate()
	if f.bump <= 0 {
		err = errors.Join(err, fmt.Errorf("--restore-bump-revision %d: must be above 0", f.bump))
	}
	return err
}

// bootstrap returns what looks at the data dir before etcd may start. Only then
// snapshots are opened, so that only then secret keys are needed.
func (f *bootstrapFlags) bootstrap(a *archive.Archive, dataDir string, el *server.Election, m *metrics) (*bootstrap.Bootstrap, error) {
	if err := f.keys.apply(a); err != nil {
		return nil, err
	}
	b := bootstrap.New(a, dataDir)
	b.Options, b.Accept, b.Bump, b.Log, b.Metrics = f.options, f.accept, f.bump, el.Log, m.bootstrap()
	b.Members = func() int { return el.Status().Members }
	return b, nil
}
