package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// maxAdoption bounds an adoption's manifest, in bytes: a chain of the longest
// names with tens of thousands of deltas stays below.
const maxAdoption = 16 << 20

// BeginAdoption says that an adoption is about to be copied here. It may be
// repeated: the first time counts.
func (a *Archive) BeginAdoption(ctx context.Context, b BegunAdoption) error {
	b.Version, b.Time = AdoptionVersion, b.Time.UTC()
	_, err := a.createAdoption(ctx, b.OperationID, begunName, b)
	return err
}

// PrepareAdoption stores the manifest of an adoption. There is one to an
// operation: if one is there already it is returned as it was stored, and it is
// for the caller to see whether it is the same.
func (a *Archive) PrepareAdoption(ctx context.Context, ad Adoption) (Adoption, error) {
	ad.Version, ad.Time = AdoptionVersion, ad.Time.UTC()
	if err := ad.check(); err != nil {
		return ad, fmt.Errorf("adoption %s: %w", ad.OperationID, err)
	}
	created, err := a.createAdoption(ctx, ad.OperationID, manifestLeaf, ad)
	if err != nil || created {
		return ad, err
	}
	return readAdoption[Adoption](ctx, a, ad.OperationID, manifestLeaf)
}

// outcome is what is stored of an AdoptionOutcome.
type outcome struct {
	Version     int             `json:"schemaVersion"`
	OperationID string          `json:"operationID"`
	Outcome     AdoptionOutcome `json:"outcome"`
}

// SettleAdoption says how an adoption has ended. It may be repeated; that it has
// ended otherwise is ErrSettled.
func (a *Archive) SettleAdoption(ctx context.Context, operationID string, o AdoptionOutcome) error {
	created, err := a.createAdoption(ctx, operationID, outcomeName, outcome{AdoptionVersion, operationID, o})
	if err != nil || created {
		return err
	}
	there, err := readAdoption[outcome](ctx, a, operationID, outcomeName)
	if err != nil {
		return err
	}
	if there.Outcome != o {
		return fmt.Errorf("adoption %s is %s, it cannot be %s: %w", operationID, there.Outcome, o, ErrSettled)
	}
	return nil
}

// Adoptions reads all adoptions. One that is damaged is an error, which wraps
// ErrCorrupt. A container that is not there has none.
func (a *Archive) Adoptions(ctx context.Context) (Adoptions, error) {
	infos, err := a.store.List(ctx, adoptionFolder)
	if errors.Is(err, store.ErrNoContainer) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list adoptions: %w", err)
	}
	var all Adoptions
	for _, info := range infos {
		id, leaf, _ := strings.Cut(strings.TrimPrefix(info.Name, adoptionFolder), "/")
		i := slices.IndexFunc(all, func(s AdoptionState) bool { return s.OperationID == id })
		if i < 0 {
			i, all = len(all), append(all, AdoptionState{OperationID: id})
		}
		if err := a.readInto(ctx, &all[i], leaf); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(s AdoptionState) bool {
		return s.Begun == nil && s.Manifest == nil && s.Outcome == AdoptionOpen // foreign
	})
	all.sort()
	return all, nil
}

// readInto adds what the object leaf says to s.
func (a *Archive) readInto(ctx context.Context, s *AdoptionState, leaf string) error {
	switch leaf {
	case begunName:
		b, err := readAdoption[BegunAdoption](ctx, a, s.OperationID, leaf)
		s.Begun = &b
		return err
	case manifestLeaf:
		ad, err := readAdoption[Adoption](ctx, a, s.OperationID, leaf)
		if err == nil {
			err = wrongAdoption(s.OperationID, ad.check())
		}
		s.Manifest = &ad
		return err
	case outcomeName:
		o, err := readAdoption[outcome](ctx, a, s.OperationID, leaf)
		if err == nil && o.Outcome != AdoptionCommitted && o.Outcome != AdoptionWithdrawn {
			err = wrongAdoption(s.OperationID, fmt.Errorf("unknown outcome %.80q", o.Outcome))
		}
		s.Outcome = o.Outcome
		return err
	}
	return nil
}

// createAdoption stores v unless something is there.
func (a *Archive) createAdoption(ctx context.Context, operationID, leaf string, v any) (created bool, err error) {
	if err := checkOperationID(operationID); err != nil {
		return false, err
	}
	data, err := snapshot.Seal(v)
	if err != nil {
		return false, fmt.Errorf("encode adoption %s: %w", operationID, err)
	}
	_, err = a.store.Create(ctx, adoptionName(operationID, leaf), bytes.NewReader(data))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store adoption %s: %w", operationID, err)
	}
	return true, nil
}

func adoptionName(operationID, leaf string) string { return adoptionFolder + operationID + "/" + leaf }

func readAdoption[T any](ctx context.Context, a *Archive, operationID, leaf string) (T, error) {
	var v T
	name := adoptionName(operationID, leaf)
	body, info, err := a.store.Open(ctx, name)
	if err != nil {
		return v, fmt.Errorf("read %s: %w", name, err)
	}
	defer body.Close()
	if info.Size > maxAdoption {
		return v, wrongAdoption(operationID, fmt.Errorf("%s has %d bytes", leaf, info.Size))
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return v, fmt.Errorf("read %s: %w", name, err)
	}
	return v, wrongAdoption(operationID, snapshot.Unseal(data, &v))
}

func wrongAdoption(operationID string, err error) error {
	if err == nil {
		return nil
	}
	return corrupt("adoption "+operationID, "%w", err)
}

// AdoptedChain returns the set that ad names, as it is stored here, see
// PinnedChain.
func (a *Archive) AdoptedChain(ctx context.Context, ad Adoption) (snapshot.Chain, error) {
	c, err := a.PinnedChain(ctx, ad.Items)
	if err != nil {
		return c, fmt.Errorf("adoption %s: %w", ad.OperationID, err)
	}
	return c, nil
}

// PinnedChain returns the snapshots that are named, as they are stored here: each
// is of the size and digest that pin it, and they are one chain of one lineage.
// Otherwise the error wraps ErrCorrupt. The bytes are checked when they are read,
// as always.
func (a *Archive) PinnedChain(ctx context.Context, items []AdoptedItem) (snapshot.Chain, error) {
	ms := make([]snapshot.Manifest, len(items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listParallel)
	for i, it := range items {
		g.Go(func() (err error) {
			ms[i], err = a.pinned(ctx, it)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return snapshot.Chain{}, err
	}
	return chainOf(ms)
}

func (a *Archive) pinned(ctx context.Context, it AdoptedItem) (snapshot.Manifest, error) {
	m, err := a.Manifest(ctx, it.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, corrupt(it.Name, "it is named and not stored")
	case err != nil:
		return m, err
	}
	if m.Kind != it.Kind || m.StoredSize != it.Size || m.StoredSHA256 != it.SHA256 {
		return m, corrupt(it.Name, "another snapshot of that name is stored than the one that was named")
	}
	return m, nil
}

// Manifest returns the manifest of the snapshot name. fs.ErrNotExist says that it
// is not there.
func (a *Archive) Manifest(ctx context.Context, name string) (snapshot.Manifest, error) {
	data, err := a.RawManifest(ctx, name)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	return snapshot.DecodeManifest(data) // RawManifest has done so before
}

// chainOf returns ms as the one chain that they are, in any order.
func chainOf(ms []snapshot.Manifest) (snapshot.Chain, error) {
	chain, err := snapshot.Select(ms, snapshot.Target{})
	if err != nil {
		return chain, fmt.Errorf("the named set: %w: %w", ErrCorrupt, err)
	}
	if len(chain.All()) != len(ms) {
		return chain, fmt.Errorf("the named set: %w: %d of its %d snapshots are one chain", ErrCorrupt, len(chain.All()), len(ms))
	}
	return chain, nil
}
