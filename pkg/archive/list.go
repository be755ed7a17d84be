package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// listParallel is how many manifests are fetched at once.
const listParallel = 16

// Listing is what an archive holds.
type Listing struct {
	// Manifests are the sound snapshots: the manifest is intact and the object
	// is there with its size. In order of First, Last, Time.
	Manifests []snapshot.Manifest
	// Problems are snapshots that count but are not sound, in name order.
	Problems []Problem
	// Strays are objects without a manifest: an upload that goes on now or was
	// cut off, or a removal that was. In name order, names without the folder.
	Strays []store.Info
	// Announcements tell which strays are copies, see Incoming.
	Announcements []Announcement
	// Foreign counts objects whose names are not a snapshot's. They are left
	// alone.
	Foreign int
}

// Problem names a snapshot and says what is wrong with it.
type Problem struct {
	Name string
	Err  error // wraps ErrCorrupt
}

// List reads every manifest of the archive. Unsound snapshots are in the
// Listing; the error is the store's.
func (a *Archive) List(ctx context.Context) (Listing, error) {
	infos, err := a.store.List(ctx, folder)
	if err != nil {
		return Listing{}, fmt.Errorf("list snapshots: %w", err)
	}
	found := sortOut(infos)
	manifests, problems, err := a.readManifests(ctx, found)
	if err != nil {
		return Listing{}, err
	}
	announcements, err := a.readAnnouncements(ctx, found.announcements)
	if err != nil {
		return Listing{}, err
	}
	a.forget(found)
	return Listing{
		Manifests: manifests, Problems: problems, Strays: found.strays(), Announcements: announcements, Foreign: found.foreign,
	}, nil
}

// forget drops the manifests that are not listed any more.
func (a *Archive) forget(c contents) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.known, func(name string, _ known) bool { _, there := c.manifests[name]; return !there })
}

// contents are the objects of the folder by role; keys are snapshot names.
type contents struct {
	objects, manifests map[string]store.Info
	announcements      []store.Info
	foreign            int
}

func sortOut(infos []store.Info) contents {
	c := contents{objects: map[string]store.Info{}, manifests: map[string]store.Info{}}
	for _, info := range infos {
		name, isManifest := strings.CutSuffix(strings.TrimPrefix(info.Name, folder), snapshot.ManifestSuffix)
		_, err := snapshot.Parse(name)
		switch {
		case isAnnouncement(info.Name):
			c.announcements = append(c.announcements, info)
		case err != nil:
			c.foreign++
		case isManifest:
			c.manifests[name] = info
		default:
			c.objects[name] = info
		}
	}
	return c
}

func (c contents) strays() []store.Info {
	var strays []store.Info
	for name, info := range c.objects {
		if _, has := c.manifests[name]; !has {
			info.Name = name
			strays = append(strays, info)
		}
	}
	slices.SortFunc(strays, func(a, b store.Info) int { return cmp.Compare(a.Name, b.Name) })
	return strays
}

func (a *Archive) readManifests(ctx context.Context, c contents) ([]snapshot.Manifest, []Problem, error) {
	names := make([]string, 0, len(c.manifests))
	for name := range c.manifests {
		names = append(names, name)
	}
	slices.Sort(names)
	read := make([]snapshot.Manifest, len(names))
	wrong := make([]error, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(listParallel)
	for i, name := range names {
		g.Go(func() (err error) {
			read[i], err = a.readManifest(gctx, name, c)
			if errors.Is(err, ErrCorrupt) {
				wrong[i], err = err, nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, fmt.Errorf("read manifests: %w", err)
	}
	var manifests []snapshot.Manifest
	var problems []Problem
	for i, name := range names {
		if wrong[i] != nil {
			problems = append(problems, Problem{name, wrong[i]})
		} else if read[i].Name != "" {
			manifests = append(manifests, read[i])
		}
	}
	slices.SortFunc(manifests, byRevision)
	return manifests, problems, nil
}

func byRevision(a, b snapshot.Manifest) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), a.Time.Compare(b.Time), cmp.Compare(a.Name, b.Name))
}

// readManifest returns a zero manifest if the snapshot was removed meanwhile.
func (a *Archive) readManifest(ctx context.Context, name string, c contents) (snapshot.Manifest, error) {
	m, err := a.fetchManifest(ctx, name, c.manifests[name].Version)
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot.Manifest{}, nil
	}
	if err != nil {
		return snapshot.Manifest{}, err
	}
	if m.Name != name {
		return m, corrupt(name, "its manifest is the one of %s", m.Name)
	}
	if object, there := c.objects[name]; !there || object.Size != m.StoredSize {
		return a.confirm(ctx, m)
	}
	return m, nil
}

// confirm looks again at a snapshot whose object seemed missing or of the wrong
// size: a listing is no single moment, and the snapshot may have come or gone
// while it was made.
func (a *Archive) confirm(ctx context.Context, m snapshot.Manifest) (snapshot.Manifest, error) {
	if _, _, err := a.store.Read(ctx, manifestName(m.Name)); errors.Is(err, fs.ErrNotExist) {
		return snapshot.Manifest{}, nil
	}
	r, err := a.OpenStored(ctx, m)
	if err != nil {
		return m, err
	}
	return m, r.Close()
}

// fetchManifest reads a manifest, or remembers it if its object is unchanged.
func (a *Archive) fetchManifest(ctx context.Context, name string, v store.Version) (snapshot.Manifest, error) {
	a.mu.Lock()
	k, ok := a.known[name]
	a.mu.Unlock()
	if ok && v != "" && k.version == v {
		return k.manifest, nil
	}
	data, v, err := a.store.Read(ctx, manifestName(name))
	if err != nil {
		return snapshot.Manifest{}, fmt.Errorf("%s: %w", manifestName(name), err)
	}
	m, err := snapshot.DecodeManifest(data)
	if err != nil {
		return m, corrupt(name, "%w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[name] = known{v, m}
	return m, nil
}
