package restorer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	// DefaultName is the member's name, as etcd's.
	DefaultName = "default"
	// DefaultPeerURL is the member's peer URL, as etcd's.
	DefaultPeerURL = "http://localhost:2380"
)

// Options say what is restored, and for which etcd. Fields that are named like
// flags of etcd or etcdutl mean the same.
type Options struct {
	Target snapshot.Target `json:"target"`

	Name           string `json:"name"`           // DefaultName if empty
	InitialCluster string `json:"initialCluster"` // the member alone, at DefaultPeerURL, if empty
	// InitialClusterToken makes the cluster id. If it is empty a member that
	// is alone gets a new one with every restore; several members get one that
	// they all derive from what is restored.
	InitialClusterToken string   `json:"initialClusterToken,omitempty"`
	PeerURLs            []string `json:"initialAdvertisePeerURLs"` // those in InitialCluster if empty

	// BumpRevision is added to the revision when history goes back, so that it
	// never decreases for clients; MarkCompacted, which goes with it, makes
	// their watches fail instead of missing events.
	BumpRevision  int64 `json:"bumpRevision,omitempty"`
	MarkCompacted bool  `json:"markCompacted,omitempty"`

	// OperationID is that of the adoption whose set is restored, for the Origin of
	// the data dir.
	OperationID string `json:"operationID,omitempty"`

	// EtcdVersion is of the etcd that will run on the data dir, such as "3.6"
	// or "3.6.16". If it is empty nothing is checked.
	EtcdVersion string `json:"etcdVersion,omitempty"`
}

// Validate joins everything that is wrong with o, whatever is stored.
func (o Options) Validate() error {
	_, err := o.complete()
	return err
}

// complete fills in the defaults and validates.
func (o Options) complete() (Options, error) {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.InitialCluster = cmp.Or(o.InitialCluster, o.Name+"="+DefaultPeerURL)
	var clusterErr, versionErr error
	o.PeerURLs, clusterErr = o.peerURLs()
	if o.EtcdVersion != "" {
		_, versionErr = minorOf(o.EtcdVersion)
	}
	return o, errors.Join(clusterErr, o.checkBump(), versionErr)
}

// peerURLs returns the URLs of the member. They must be the same by letter in
// both places, so that no name has to be looked up.
func (o Options) peerURLs() ([]string, error) {
	members, err := types.NewURLsMap(o.InitialCluster)
	if err != nil {
		return nil, fmt.Errorf("--initial-cluster: %w", err)
	}
	if config.CheckDuplicateURL(members) {
		return nil, fmt.Errorf("--initial-cluster %s has the same URL twice", o.InitialCluster)
	}
	urls, ok := members[o.Name]
	if !ok {
		return nil, fmt.Errorf("--name %q is not in --initial-cluster: its members are %s",
			o.Name, strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	}
	if len(o.PeerURLs) == 0 {
		return urls.StringSlice(), nil
	}
	given, err := types.NewURLs(o.PeerURLs)
	if err != nil {
		return nil, fmt.Errorf("--initial-advertise-peer-urls: %w", err)
	}
	if given.String() != urls.String() { // both are sorted
		return nil, fmt.Errorf("--initial-advertise-peer-urls is %s, but --initial-cluster has %s for %q", given, urls, o.Name)
	}
	return urls.StringSlice(), nil
}

func (o Options) checkBump() error {
	switch {
	case o.BumpRevision < 0:
		return fmt.Errorf("--bump-revision %d: the revision must not decrease", o.BumpRevision)
	case o.MarkCompacted != (o.BumpRevision > 0):
		return errors.New("--bump-revision and --mark-compacted go together")
	}
	return nil
}

// members is how many the cluster has; o is complete.
func (o Options) members() int {
	m, _ := types.NewURLsMap(o.InitialCluster)
	return len(m)
}

// tokenFor returns the token that every member derives alike if it restores the
// same chain to the same revision.
func tokenFor(c snapshot.Chain, revision int64) string {
	content := fmt.Appendf(nil, "%s %d", c.Full.Lineage, revision)
	for _, m := range c.All() {
		content = fmt.Appendf(content, " %s", m.Name)
	}
	return tokenPrefix + uuid.NewSHA1(uuid.NameSpaceURL, content).String()
}

// newToken returns a token that no other cluster has.
func newToken() string { return tokenPrefix + uuid.NewString() }

const tokenPrefix = "etcd-ferry-"
