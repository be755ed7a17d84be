package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	// incomingPrefix begins the name, in the folder, of an announcement. It is no
	// snapshot's.
	incomingPrefix = "incoming-"
	incomingSuffix = ".json"
	incomingSchema = 1
	// incomingNames is how many names are in one announcement, so that it stays
	// well below store.MaxSwap.
	incomingNames = 400
)

// Announcement says that somebody is about to bring snapshots here that are
// stored elsewhere, and names them. While one of them is a stray, it is a copy
// that goes on or was cut off, and nothing is lost by that: the original counts
// where it comes from.
type Announcement struct {
	Schema int      `json:"schemaVersion"`
	From   string   `json:"from"`  // for people, carries no secret
	Names  []string `json:"names"` // of snapshots, as they will be called here

	object string
}

// Announce stores that the snapshots of these names, of which nothing is here,
// are about to come from elsewhere. It may be repeated: what is announced
// already stays as it is.
func (a *Archive) Announce(ctx context.Context, from string, names []string) ([]Announcement, error) {
	var all []Announcement
	for some := range slices.Chunk(names, incomingNames) {
		announced := Announcement{Schema: incomingSchema, From: from, Names: some}
		data, err := json.Marshal(announced)
		if err != nil {
			return all, fmt.Errorf("announce a copy: %w", err)
		}
		announced.object = fmt.Sprintf("%s%s%x%s", folder, incomingPrefix, sha256.Sum256(data), incomingSuffix)
		if _, err := a.store.Create(ctx, announced.object, bytes.NewReader(data)); err != nil && !errors.Is(err, fs.ErrExist) {
			return all, fmt.Errorf("announce a copy: %w", err)
		}
		all = append(all, announced)
	}
	return all, nil
}

// Withdraw deletes an announcement: everything it names counts, or will not come.
func (a *Archive) Withdraw(ctx context.Context, announced Announcement) error {
	if err := a.store.Remove(ctx, announced.object); err != nil {
		return fmt.Errorf("remove %s: %w", announced.object, err)
	}
	return nil
}

// Incoming reports whether the snapshot of that name was announced.
func (l Listing) Incoming(name string) bool {
	return slices.ContainsFunc(l.Announcements, func(a Announcement) bool { return slices.Contains(a.Names, name) })
}

// Unfinished tells of the copies into the archive that go on or were cut off. What
// counts of them are whole chains, so that is no reason not to restore those.
func (l Listing) Unfinished() []string {
	there := map[string]bool{}
	for _, m := range l.Manifests {
		there[m.Name] = true
	}
	for _, p := range l.Problems { // which tell for themselves
		there[p.Name] = true
	}
	var all []string
	for _, a := range l.Announcements {
		missing := 0
		for _, name := range a.Names {
			if !there[name] {
				missing++
			}
		}
		if missing > 0 {
			all = append(all, fmt.Sprintf("a copy from %s has not finished, %d of %d snapshots are still to come: copy again if it was cut off",
				a.From, missing, len(a.Names)))
		}
	}
	return all
}

func isAnnouncement(name string) bool {
	name = strings.TrimPrefix(name, folder)
	return strings.HasPrefix(name, incomingPrefix) && strings.HasSuffix(name, incomingSuffix)
}

// readAnnouncements returns those that are understood. One that is not announces
// nothing, and the strays it may be about stay doubtful.
func (a *Archive) readAnnouncements(ctx context.Context, infos []store.Info) ([]Announcement, error) {
	var all []Announcement
	for _, info := range infos {
		if info.Size > store.MaxSwap {
			continue
		}
		data, _, err := a.store.Read(ctx, info.Name)
		if errors.Is(err, fs.ErrNotExist) { // withdrawn meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", info.Name, err)
		}
		announced := Announcement{object: info.Name}
		if json.Unmarshal(data, &announced) == nil && announced.Schema == incomingSchema {
			all = append(all, announced)
		}
	}
	return all, nil
}
