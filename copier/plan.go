package copier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// State is what the destination has of a snapshot.
type State string

const (
	// Missing is to be copied.
	Missing State = "missing"
	// Uploaded has its object there, of the right size, and no manifest. Do
	// checks the object's digest and does not copy it again.
	Uploaded State = "uploaded"
	// There counts already.
	There State = "there"
)

// Item is a snapshot to be copied.
type Item struct {
	State    State             `json:"state"`
	Manifest snapshot.Manifest `json:"manifest"` // in the source
}

// Plan says what a copy will do. Nothing has been done yet.
type Plan struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Items []Item `json:"snapshots"` // in the order of their commits
	// LeftOut are selected and cannot be copied.
	LeftOut []LeftOut `json:"leftOut"`

	// Bytes as they are stored in the source, by what the destination has.
	MissingBytes  int64 `json:"missingBytes"`
	UploadedBytes int64 `json:"uploadedBytes"`
	ThereBytes    int64 `json:"thereBytes"`

	announced []archive.Announcement // by earlier copies
	strays    []string               // in the destination
}

// Plan compares what is selected with what the destination has. It refuses, with
// ErrTaken, if something else is where a copy belongs, and with
// archive.ErrCorrupt if a damaged copy is; the error names all of them. If
// nothing is selected it wraps snapshot.ErrNothing.
func (c *Copier) Plan(ctx context.Context) (Plan, error) {
	source, err := c.from.List(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("source: %w", err)
	}
	for _, copying := range source.Unfinished() {
		c.Log.Warn("the source is itself a copy, what it has yet to get is not copied", "unfinished", copying)
	}
	there, err := c.to.List(ctx)
	if err != nil && !errors.Is(err, store.ErrNoContainer) { // the first write makes it
		return Plan{}, fmt.Errorf("destination: %w", err)
	}
	order, out, err := c.Selection.pick(source)
	if err != nil {
		return Plan{}, fmt.Errorf("source %s: %w", c.from, err)
	}
	return c.compare(there, order, out)
}

// compare plans the copy of what is in order, given what the destination has.
func (c *Copier) compare(there archive.Listing, order []snapshot.Manifest, out []LeftOut) (Plan, error) {
	p := Plan{From: c.from.String(), To: c.to.String(), Items: []Item{}, LeftOut: append([]LeftOut{}, out...)}
	p.announced = there.Announcements
	for _, s := range there.Strays {
		p.strays = append(p.strays, s.Name)
	}
	d := c.destination(there)
	var errs []error
	for _, m := range order {
		state, err := d.state(m)
		errs = append(errs, err)
		p.add(Item{state, m})
	}
	return p, errors.Join(errs...)
}

func (p *Plan) add(it Item) {
	p.Items = append(p.Items, it)
	switch it.State {
	case Missing:
		p.MissingBytes += it.Manifest.StoredSize
	case Uploaded:
		p.UploadedBytes += it.Manifest.StoredSize
	case There:
		p.ThereBytes += it.Manifest.StoredSize
	}
}

// Err joins what is lost by what is left out. It wraps archive.ErrCorrupt or
// snapshot.ErrGap.
func (p Plan) Err() error { return lost(p.LeftOut) }

func lost(out []LeftOut) error {
	var errs []error
	for _, l := range out {
		if l.err != nil {
			errs = append(errs, fmt.Errorf("not copied: %w", l.err))
		}
	}
	return errors.Join(errs...)
}

// Count returns how many snapshots are in a state.
func (p Plan) Count(s State) int {
	n := 0
	for _, it := range p.Items {
		if it.State == s {
			n++
		}
	}
	return n
}

// String tells the plan to people.
func (p Plan) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "from\t%s\n", p.From)
	fmt.Fprintf(w, "to\t%s\n", p.To)
	for _, it := range p.Items {
		if it.State != There {
			fmt.Fprintf(w, "%s\t%s\t%d bytes\n", it.State, it.Manifest.Name, it.Manifest.StoredSize)
		}
	}
	fmt.Fprintf(w, "to copy\t%d snapshots\t%d bytes\n", p.Count(Missing), p.MissingBytes)
	fmt.Fprintf(w, "to check\t%d snapshots\t%d bytes, uploaded before\n", p.Count(Uploaded), p.UploadedBytes)
	fmt.Fprintf(w, "there\t%d snapshots\t%d bytes\n", p.Count(There), p.ThereBytes)
	for _, l := range p.LeftOut {
		fmt.Fprintf(w, "left out\t%s\t%s\n", l.Name, l.Reason)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// destination is what is at the other end, by name.
type destination struct {
	*Copier
	manifests map[string]snapshot.Manifest
	problems  map[string]error
	strays    map[string]int64 // sizes
}

func (c *Copier) destination(l archive.Listing) destination {
	d := destination{c, map[string]snapshot.Manifest{}, map[string]error{}, map[string]int64{}}
	for _, m := range l.Manifests {
		d.manifests[m.Name] = m
	}
	for _, p := range l.Problems {
		d.problems[p.Name] = p.Err
	}
	for _, s := range l.Strays {
		d.strays[s.Name] = s.Size
	}
	return d
}

// state looks for the copy of m.
func (d destination) state(m snapshot.Manifest) (State, error) {
	target := d.target(m)
	if err, damaged := d.problems[target.Name]; damaged {
		return Missing, fmt.Errorf("the copy in %s is damaged: %w: remove the object and its manifest there, and copy again", d.to, err)
	}
	if there, ok := d.manifests[target.Name]; ok {
		if !d.same(there, target) {
			return There, d.taken(target.Name, "another snapshot of that name is there")
		}
		return There, nil
	}
	size, stray := d.strays[target.Name]
	switch {
	case !stray:
		return Missing, nil
	case size != m.StoredSize && !d.Reencrypt:
		return Missing, d.taken(target.Name, fmt.Sprintf("an object of %d bytes, in place of %d, and without a manifest is there", size, m.StoredSize))
	}
	return Uploaded, nil
}

// taken says what to do about an object in the way.
func (c *Copier) taken(name, what string) error {
	return fmt.Errorf("%s in %s: %w: %s, and is left as it is: see what it is and remove it, or copy to another store",
		name, c.to, ErrTaken, what)
}

// target returns the manifest that the copy of m will have, as far as that is
// known before it is packed.
func (c *Copier) target(m snapshot.Manifest) snapshot.Manifest {
	if c.Reencrypt {
		m.Name, m.Parent = c.renamed(m.Name), c.renamed(m.Parent)
	}
	return m
}

// renamed returns what a snapshot is called after it has been packed again.
func (c *Copier) renamed(name string) string {
	s, err := snapshot.Parse(name)
	if err != nil { // no parent
		return name
	}
	s.Encrypted = c.to.Recipients != nil
	return s.Name()
}

// same reports whether two manifests of one name describe the same snapshot.
func (c *Copier) same(a, b snapshot.Manifest) bool {
	if c.Reencrypt { // which gives other bytes each time
		a.StoredSize, a.StoredSHA256 = b.StoredSize, b.StoredSHA256
	}
	x, errX := a.Encode()
	y, errY := b.Encode()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
