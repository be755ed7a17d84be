package delta

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	chunkSize   = 1 << 20
	numbersSize = 4 * 8
	trailerSize = 1 + numbersSize + sha256.Size
)

// Record is one event, or one lease if Lease.ID is not 0; then nothing else is
// set.
type Record struct {
	Lease         Lease
	Revision, Sub int64 // the event's place in history: main and sub revision
	Tombstone     bool  // the key was deleted
	Key           []byte
	// KeyValue is the raw protobuf of an mvccpb.KeyValue as etcd sent it. Of a
	// tombstone etcd itself keeps only the key.
	KeyValue []byte
}

// Decoder reads a delta. It trusts nothing it reads: memory grows with the
// bytes that arrive, not with the lengths they claim.
type Decoder struct {
	from    io.Reader
	readErr error

	// chunk holds what was read; its capacity is the room. It is replaced when
	// full, never used again, so that slices into it stay valid.
	chunk  []byte
	at     int // everything before is consumed
	hashed int // everything before is in hash
	hash   hash.Hash

	begun  bool
	seq    sequence
	leases int64
	err    error // what Next returned last, if it ended the reading
}

// NewDecoder returns a Decoder that reads from r in large blocks.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{from: r, hash: sha256.New()}
}

// Next returns the next record. It says io.EOF only after the trailer's digest,
// counts and range were found right and r has ended too. Any other error wraps
// ErrCorrupt, also ErrGap if that is what is wrong, or is one of r. It is
// returned by all later calls too. The slices stay valid.
func (d *Decoder) Next() (Record, error) {
	if d.err != nil {
		return Record{}, d.err
	}
	var r Record
	r, d.err = d.next()
	return r, d.err
}

// Summary returns what the trailer says. It is valid after Next said io.EOF.
func (d *Decoder) Summary() Summary {
	return Summary{First: d.seq.first, Last: d.seq.last, Events: d.seq.events, Leases: d.leases}
}

func (d *Decoder) next() (Record, error) {
	if !d.begun {
		if err := d.header(); err != nil {
			return Record{}, err
		}
		d.begun = true
	}
	body, err := d.body()
	if err != nil {
		return Record{}, err
	}
	if body == nil {
		return Record{}, d.trailer()
	}
	switch kind, message := body[0], body[1:]; kind {
	case kindEvent:
		return d.event(message)
	case kindLease:
		return d.lease(message)
	default:
		return Record{}, corrupt("a record is of the unknown kind %q", kind)
	}
}

func (d *Decoder) header() error {
	head, err := d.take(len(magic) + 1)
	if err != nil {
		return err
	}
	if string(head[:len(magic)]) != magic {
		return corrupt("it begins with %q, not %q", head[:len(magic)], magic)
	}
	if v := head[len(magic)]; v != version {
		return corrupt("its format has version %d, this etcd-ferry reads version %d", v, version)
	}
	return nil
}

// body returns the next record, nil at the end of them.
func (d *Decoder) body() ([]byte, error) {
	// Even the last length has the trailer behind it, which is longer than any
	// length.
	if err := d.need(trailerSize); err != nil {
		return nil, err
	}
	size, n := protowire.ConsumeVarint(d.chunk[d.at:])
	if n < 0 || n != protowire.SizeVarint(size) || size > maxRecord {
		return nil, corrupt("a record has no plausible length")
	}
	d.at += n
	if size == 0 {
		return nil, nil
	}
	return d.take(int(size))
}

func (d *Decoder) event(message []byte) (Record, error) {
	r, err := parseEvent(message)
	if err != nil {
		return Record{}, err
	}
	if d.seq.events == 0 {
		d.seq.first = r.Revision // the trailer must agree
	}
	if err := d.seq.add(r.Revision); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	r.Sub = d.seq.sub
	return r, nil
}

func (d *Decoder) lease(message []byte) (Record, error) {
	l, err := parseLease(message)
	if err != nil {
		return Record{}, err
	}
	d.leases++
	return Record{Lease: l}, nil
}

// trailer returns io.EOF if all is well.
func (d *Decoder) trailer() error {
	numbers, err := d.take(numbersSize)
	if err != nil {
		return err
	}
	d.digest()
	want := d.hash.Sum(nil)
	sum, err := d.take(sha256.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, want) {
		return corrupt("its sha256 does not match its content")
	}
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(numbers[8*i:])) }
	says, holds := Summary{number(0), number(1), number(2), number(3)}, d.Summary()
	if says != holds || holds.Events == 0 {
		return corrupt("its trailer says %+v, it holds %+v", says, holds)
	}
	return d.end()
}

// end insists that nothing follows.
func (d *Decoder) end() error {
	for d.at == len(d.chunk) && d.readErr == nil {
		d.read()
	}
	if d.at < len(d.chunk) {
		return corrupt("something follows its end")
	}
	if d.readErr != io.EOF {
		return fmt.Errorf("read delta: %w", d.readErr)
	}
	return io.EOF
}

// take consumes n bytes.
func (d *Decoder) take(n int) ([]byte, error) {
	if err := d.need(n); err != nil {
		return nil, err
	}
	b := d.chunk[d.at : d.at+n : d.at+n]
	d.at += n
	return b, nil
}

// need reads until n bytes are there to be consumed.
func (d *Decoder) need(n int) error {
	for len(d.chunk)-d.at < n {
		switch d.readErr {
		case nil:
			d.read()
		case io.EOF:
			return corrupt("it ends early")
		default:
			return fmt.Errorf("read delta: %w", d.readErr)
		}
	}
	return nil
}

// read reads once, into a new chunk if the current one is full.
func (d *Decoder) read() {
	if len(d.chunk) == cap(d.chunk) {
		d.digest()
		rest := d.chunk[d.at:]
		d.chunk = append(make([]byte, 0, max(chunkSize, 2*len(rest))), rest...)
		d.at, d.hashed = 0, 0
	}
	free := d.chunk[len(d.chunk):cap(d.chunk)]
	var n int
	n, d.readErr = d.from.Read(free)
	d.chunk = d.chunk[:len(d.chunk)+n]
}

// digest hashes what was consumed since the last call.
func (d *Decoder) digest() {
	_, _ = d.hash.Write(d.chunk[d.hashed:d.at]) // a hash never fails
	d.hashed = d.at
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}
