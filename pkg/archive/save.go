package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// Save stores plain as the content of the snapshot that m describes, reads it
// back, and makes it count by writing the manifest. Of m the caller sets what
// it knows of the history; name, sizes and digests are filled in. Plain is not
// hashed again if it is Summed. After an error nothing counts, though a stray may
// be left. fs.ErrExist says that the name is taken: try again with a later time.
func (a *Archive) Save(ctx context.Context, m snapshot.Manifest, plain io.Reader) (snapshot.Manifest, error) {
	m, err := a.Put(ctx, m, plain)
	if err != nil {
		return m, err
	}
	crashpoint.Here(crashpoint.FullUploaded)
	return a.seal(ctx, m)
}

// Put is Save without the manifest: what it stores does not count before the
// manifest it returns is encoded and given to Commit.
func (a *Archive) Put(ctx context.Context, m snapshot.Manifest, plain io.Reader) (snapshot.Manifest, error) {
	m, err := a.put(ctx, m, plain)
	if err != nil {
		return m, err
	}
	return m, a.readBack(ctx, m)
}

// put is Put without reading back.
func (a *Archive) put(ctx context.Context, m snapshot.Manifest, plain io.Reader) (snapshot.Manifest, error) {
	to, err := a.recipients()
	if err != nil {
		return m, err
	}
	m = named(m, len(to) > 0)
	packed, err := a.upload(ctx, m.Name, plain, to)
	if err != nil {
		return m, fmt.Errorf("store %s: %w", m.Name, err)
	}
	return packed.describe(m), nil
}

// SaveBuffer is Save for a snapshot that is packed and closed already. It may be
// repeated with the same m after any error: the same bytes under the same name
// are the same snapshot.
func (a *Archive) SaveBuffer(ctx context.Context, m snapshot.Manifest, b *Buffer) (snapshot.Manifest, error) {
	if err := a.encrypt(b); err != nil {
		return m, err
	}
	m = b.packed().describe(named(m, b.encrypted))
	_, err := a.store.Create(ctx, objectName(m.Name), bytes.NewReader(b.bytes.Bytes()))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("store %s: %w", m.Name, err)
	}
	backErr := a.readBack(ctx, m)
	switch {
	case err != nil && errors.Is(backErr, ErrCorrupt):
		return m, fmt.Errorf("store %s: another writer's bytes are there: %w", m.Name, err)
	case backErr != nil:
		return m, backErr
	}
	crashpoint.Here(crashpoint.DeltaUploaded)
	return a.seal(ctx, m)
}

// encrypt makes b what is to be stored here, unless it is already.
func (a *Archive) encrypt(b *Buffer) error {
	to, err := a.recipients()
	if err != nil || len(to) == 0 || b.encrypted {
		return err
	}
	return b.encrypt(to)
}

func named(m snapshot.Manifest, encrypted bool) snapshot.Manifest {
	s := snapshot.Snapshot{Kind: m.Kind, First: m.First, Last: m.Last, Time: m.Time, Encrypted: encrypted}
	m.Name = s.Name()
	return m
}

// upload packs plain into the object of that name.
func (a *Archive) upload(ctx context.Context, name string, plain io.Reader, to []age.Recipient) (packed, error) {
	source, _ := plain.(io.Closer)
	summed, ok := plain.(Summed)
	if !ok {
		own := newDigest()
		summed, plain = own, io.TeeReader(plain, own)
	}
	read, write := io.Pipe()
	var pack *packer
	var g errgroup.Group
	g.Go(func() (err error) {
		pack, err = pour(write, plain, to)
		crashpoint.Here(crashpoint.Uploading)
		write.CloseWithError(err)
		return err
	})
	_, createErr := a.store.Create(ctx, objectName(name), read)
	read.CloseWithError(errors.Join(createErr, io.ErrClosedPipe)) // releases the packer if the store gave up early
	if createErr != nil && source != nil {
		_ = source.Close() // it may be blocked where the store has no more use for it
	}
	sourceErr := g.Wait()
	if createErr != nil {
		return packed{}, createErr
	}
	if sourceErr != nil {
		return packed{}, sourceErr
	}
	return pack.packed(summed), nil
}

// pour packs plain into w.
func pour(w io.Writer, plain io.Reader, to []age.Recipient) (*packer, error) {
	pack, err := newPacker(w, 2, to)
	if err != nil {
		return nil, err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{pack}, plain, make([]byte, 256<<10))
	return pack, errors.Join(err, pack.Close())
}

// seal makes a stored object count.
func (a *Archive) seal(ctx context.Context, m snapshot.Manifest) (snapshot.Manifest, error) {
	data, err := m.Encode()
	if err != nil {
		return m, err
	}
	return a.Commit(ctx, data)
}

// Commit makes a stored object count by storing its manifest, as Encode or
// RawManifest gave it. The caller has read the object back. Repeating it changes
// nothing; fs.ErrExist says that there is another manifest of that name.
func (a *Archive) Commit(ctx context.Context, manifest []byte) (snapshot.Manifest, error) {
	m, err := snapshot.DecodeManifest(manifest) // what is written is what readers must accept
	if err != nil {
		return m, err
	}
	if err := a.createManifest(ctx, m.Name, manifest); err != nil {
		return m, fmt.Errorf("store manifest of %s: %w", m.Name, err)
	}
	return m, nil
}

func (a *Archive) readBack(ctx context.Context, m snapshot.Manifest) error {
	r, err := a.OpenStored(ctx, m)
	if err == nil {
		defer r.Close()
		_, err = store.Drain(r)
	}
	if err != nil {
		return fmt.Errorf("read back %s: %w", m.Name, err)
	}
	return nil
}

// createManifest treats the same bytes under the same name as its own: the
// answer of an earlier try was lost.
func (a *Archive) createManifest(ctx context.Context, name string, data []byte) error {
	_, err := a.store.Create(ctx, manifestName(name), bytes.NewReader(data))
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, _, readErr := a.store.Read(ctx, manifestName(name))
	if readErr != nil {
		return readErr
	}
	if !bytes.Equal(there, data) {
		return err
	}
	return nil
}
