package restorer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

// bbolt trusts its file: where a page is broken it panics in goroutines of its
// own or reads beyond its mapping, and both end the process. So every page is
// looked at first, without bbolt (see its internal/common/page.go):
//
//	page     id 8, flags 2, count 2, overflow 4, then count elements
//	branch   element: position 4, key size 4, child page 8
//	leaf     element: flags 4, position 4, key size 4, value size 4
//	bucket   value: root page 8, sequence 8, and an inline leaf if root is 0
//
// Numbers are in the byte order of the machine. The key is at the position,
// counted from the element, and the value after it.
const (
	pageHeader   = 16
	elementSize  = 16
	branchPage   = 0x01
	leafPage     = 0x02
	bucketHeader = 16
	bucketFlag   = 0x01
)

// pages is the tree of pages of a database.
type pages struct {
	file *os.File
	size uint64 // of a page, in bytes
	root uint64
	seen []bool // by page: something refers to it
}

// checkPages checks that every page of the tree is there, belongs to it once,
// and holds its keys in order. Otherwise the error wraps archive.ErrCorrupt.
func checkPages(path string) error {
	var p *pages
	err := guarded(func() (err error) {
		p, err = openPages(path)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(p.check(p.root, nil, nil), p.file.Close())
}

// openPages has bbolt read the two pages that say where the tree begins.
func openPages(path string) (p *pages, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return nil, opened(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p = &pages{size: uint64(db.Info().PageSize)}
	var total int64
	err = db.View(func(tx *bbolt.Tx) error {
		p.root, total = uint64(tx.Cursor().Bucket().Root()), tx.Size()
		return nil
	})
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() < total {
		err = fmt.Errorf("%w: a database of %d bytes in a file of %d", archive.ErrCorrupt, total, info.Size())
	}
	if err != nil {
		return nil, err
	}
	p.seen = make([]bool, uint64(total)/p.size)
	p.file, err = os.Open(path)
	return p, err
}

// check checks a page and those below it. No key may be below low, and all must
// be below high unless that is nil.
func (p *pages) check(id uint64, low, high []byte) error {
	pg, err := p.read(id)
	if err == nil {
		err = p.checkPage(pg, low, high)
	}
	if err != nil && !errors.Is(err, archive.ErrCorrupt) {
		err = fmt.Errorf("%w: database page %d: %w", archive.ErrCorrupt, id, err)
	}
	return err
}

// read returns a page with its overflow.
func (p *pages) read(id uint64) (page, error) {
	if id < 2 || id >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("pages end with %d", len(p.seen)-1)
	}
	pg := make(page, p.size)
	if _, err := p.file.ReadAt(pg, int64(id*p.size)); err != nil {
		return nil, err
	}
	rest, more := p.seen[id:], uint64(pg.overflow())
	if pg.id() != id || more >= uint64(len(rest)) {
		return nil, fmt.Errorf("it says it is %d and %d more", pg.id(), more)
	}
	for i := range more + 1 {
		if rest[i] {
			return nil, errors.New("it is referred to twice")
		}
		rest[i] = true
	}
	if more == 0 {
		return pg, nil
	}
	pg = append(pg, make([]byte, more*p.size)...)
	_, err := p.file.ReadAt(pg[p.size:], int64((id+1)*p.size))
	return pg, err
}

func (p *pages) checkPage(pg page, low, high []byte) error {
	branch := pg.flags() == branchPage
	if !branch && pg.flags() != leafPage {
		return fmt.Errorf("its flags are %#x", pg.flags())
	}
	if branch && pg.count() == 0 {
		return errors.New("it is a branch without children")
	}
	elements, err := pg.elements()
	if err != nil {
		return err
	}
	if err := ordered(elements, low, high); err != nil {
		return err
	}
	for i, e := range elements {
		switch {
		case branch && i+1 < len(elements):
			err = p.check(e.child, e.key, elements[i+1].key)
		case branch:
			err = p.check(e.child, e.key, high)
		case e.bucket:
			err = p.checkBucket(e.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) checkBucket(value []byte) error {
	if len(value) < bucketHeader {
		return errors.New("a bucket is too short")
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.check(root, nil, nil)
	}
	inline := page(value[bucketHeader:])
	if len(inline) < pageHeader || inline.flags() != leafPage {
		return errors.New("a bucket has neither a root nor a leaf")
	}
	return p.checkPage(inline, nil, nil)
}

func ordered(elements []element, low, high []byte) error {
	for i, e := range elements {
		if i == 0 && bytes.Compare(e.key, low) < 0 ||
			i > 0 && bytes.Compare(e.key, elements[i-1].key) <= 0 ||
			high != nil && bytes.Compare(e.key, high) >= 0 {
			return fmt.Errorf("key %d of %d is out of order", i, len(elements))
		}
	}
	return nil
}

// page is the bytes of a page, overflow included.
type page []byte

func (pg page) id() uint64       { return binary.NativeEndian.Uint64(pg) }
func (pg page) flags() uint16    { return binary.NativeEndian.Uint16(pg[8:]) }
func (pg page) count() int       { return int(binary.NativeEndian.Uint16(pg[10:])) }
func (pg page) overflow() uint32 { return binary.NativeEndian.Uint32(pg[12:]) }

// element is an entry of a page.
type element struct {
	key    []byte
	child  uint64 // of a branch
	bucket bool   // of a leaf: value is a bucket's
	value  []byte
}

func (pg page) elements() ([]element, error) {
	elements := make([]element, pg.count())
	for i := range elements {
		e, err := pg.element(uint64(pageHeader + i*elementSize))
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i, len(elements), err)
		}
		elements[i] = e
	}
	return elements, nil
}

func (pg page) element(at uint64) (e element, err error) {
	if at+elementSize > uint64(len(pg)) {
		return e, errors.New("it is beyond the page")
	}
	var number [4]uint64
	for i := range number {
		number[i] = uint64(binary.NativeEndian.Uint32(pg[at+4*uint64(i):]))
	}
	var begin, keySize, valueSize uint64
	if pg.flags() == branchPage {
		begin, keySize = number[0], number[1]
		e.child = binary.NativeEndian.Uint64(pg[at+8:])
	} else {
		begin, keySize, valueSize = number[1], number[2], number[3]
		e.bucket = number[0]&bucketFlag != 0
	}
	begin += at
	if begin+keySize+valueSize > uint64(len(pg)) {
		return e, errors.New("its content is beyond the page")
	}
	e.key = pg[begin : begin+keySize]
	e.value = pg[begin+keySize : begin+keySize+valueSize]
	return e, nil
}
