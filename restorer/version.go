package restorer

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// ErrVersion is wrapped when a snapshot is newer than the etcd that should run
// it.
//
// Measured with a snapshot of 3.7.3: etcd 3.6 ends at its start with `version
// "3.7.0" is not supported`; etcd 3.5 does not look, and serves data that etcd
// does not promise it understands.
var ErrVersion = errors.New("snapshot of a newer etcd")

// minor is a version of etcd as far as its storage format goes.
type minor struct{ major, minor int }

func minorOf(version string) (minor, error) {
	var m minor
	if _, err := fmt.Sscanf(version, "%d.%d", &m.major, &m.minor); err != nil {
		return m, fmt.Errorf("etcd version %q: want for example 3.6 or 3.6.16", version)
	}
	return m, nil
}

func (m minor) String() string { return fmt.Sprintf("%d.%d", m.major, m.minor) }

func (m minor) newerThan(o minor) bool {
	return cmp.Or(cmp.Compare(m.major, o.major), cmp.Compare(m.minor, o.minor)) > 0
}

// checkVersion refuses a full that is too new for etcd. A young etcd 3.6 has not
// said its storage version yet; then the version of the program counts.
func checkVersion(full snapshot.Manifest, etcd string) error {
	if etcd == "" {
		return nil
	}
	needs, err := minorOf(cmp.Or(full.StorageVersion, full.EtcdVersion))
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", full.Name, err)
	}
	return tooNew(full, needs, etcd)
}

func tooNew(full snapshot.Manifest, needs minor, etcd string) error {
	runs, err := minorOf(etcd)
	if err != nil {
		return err
	}
	if !needs.newerThan(runs) {
		return nil
	}
	return fmt.Errorf("%w: %s was written by etcd %s (storage version %s), and etcd %s cannot be relied on to read it: "+
		"use etcd %s or newer, or choose an older snapshot with --base", ErrVersion, full.Name, full.EtcdVersion, needs, runs, needs)
}
