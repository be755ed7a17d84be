package archive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// FirstHistory is what stands for the operation in a container that was handed
// nothing: the history that began in it.
const FirstHistory = "none"

// Serving says which members of an etcd were let in on the history that an
// operation brought. It is created before they are, so that it is known of a
// member that is not in it that it never had that history:
//
//	adoptions/<operationID>/serving-<member>.json
type Serving struct {
	Version     int       `json:"schemaVersion"`
	OperationID string    `json:"operationID"`
	Member      string    `json:"member"` // its --name
	Owner       string    `json:"owner"`
	Time        time.Time `json:"time"`
}

const (
	servingPrefix = "serving-"
	servingSuffix = ".json"
)

// MarkServing says that a member is about to be let in. It may be repeated: the
// first time counts.
func (a *Archive) MarkServing(ctx context.Context, s Serving) error {
	s.Version, s.Time = AdoptionVersion, s.Time.UTC()
	_, err := a.createAdoption(ctx, s.OperationID, servingLeaf(s.Member), s)
	return err
}

func servingLeaf(member string) string {
	return servingPrefix + url.PathEscape(member) + servingSuffix
}

// ServingMembers returns the names of the members that were let in on the history
// of an operation, in the order of names.
func (a *Archive) ServingMembers(ctx context.Context, operationID string) ([]string, error) {
	prefix := adoptionName(operationID, servingPrefix)
	infos, err := a.store.List(ctx, prefix)
	if errors.Is(err, store.ErrNoContainer) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list who serves: %w", err)
	}
	var members []string
	for _, info := range infos {
		escaped := strings.TrimSuffix(strings.TrimPrefix(info.Name, prefix), servingSuffix)
		if name, err := url.PathUnescape(escaped); err == nil {
			members = append(members, name)
		}
	}
	return members, nil
}
