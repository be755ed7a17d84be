package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// past is a history that is made by hand, at moments that are counted in seconds.
type past struct {
	*History
	has Content
	// Of the calls, to be changed.
	one, shared, read, old, swapped, refused, lost, never, next, again *Op
	watched                                                            *stream
}

// call writes down one; without an answer, answered is 0.
func (h *History) call(o Op, asked, answered int) *Op {
	o.Key = h.Prefix + o.Key
	p := h.begin(o)
	p.Call, p.Return, p.Answered = seconds(asked), seconds(answered), answered > 0
	return p
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// of is the write that a call has done.
func (o *Op) of(revision int64) Write { return Write{revision, o.Key, o.Wrote} }

// goodPast is handed over from a, in tenancy 1, to b.
func goodPast() *past {
	p := &past{History: New()}
	p.Tenancy("a")
	a := func(k Kind, key string) Op { return Op{Kind: k, Tenancy: 1, Member: "a", Key: key} }
	p.one = p.call(a(Put, "w/1"), 1, 2)
	p.one.Applied, p.one.Revision = true, 2
	p.shared = p.call(a(Put, "r"), 3, 4)
	p.shared.Applied, p.shared.Revision = true, 3
	p.read = p.call(a(Get, "r"), 5, 6)
	p.read.Revision, p.read.Read, p.read.Modified = 3, p.shared.Wrote, 3
	p.old = p.call(a(Peek, "r"), 5, 6)
	p.old.Revision = 2
	p.swapped = p.call(a(Swap, "r"), 7, 8)
	p.swapped.Was, p.swapped.Applied, p.swapped.Revision = 3, true, 4
	p.refused = p.call(a(Swap, "r"), 9, 10)
	p.refused.Was, p.refused.Revision, p.refused.Read, p.refused.Modified = 3, 4, p.swapped.Wrote, 4
	p.lost = p.call(a(Put, "w/2"), 11, 0)
	p.never = p.call(a(Put, "w/3"), 11, 0)
	p.Tenancy("b")
	p.next = p.call(Op{Kind: Put, Tenancy: 2, Member: "b", Key: "w/4"}, 20, 21)
	p.next.Applied, p.next.Revision = true, 6
	p.again = p.call(Op{Kind: Get, Tenancy: 2, Member: "b", Key: "r"}, 22, 23)
	p.again.Revision, p.again.Read, p.again.Modified = 6, p.swapped.Wrote, 4
	p.watched = &stream{tenancy: 1, member: "a", from: 3, events: []Write{p.shared.of(3), p.swapped.of(4), p.lost.of(5)}}
	p.watch(p.watched)
	p.serves(1, 6, p.one.of(2), p.shared.of(3), p.swapped.of(4), p.lost.of(5), p.next.of(6))
	return p
}

// serves says what the owner has; what is below first is compacted.
func (p *past) serves(first, revision int64, writes ...Write) {
	p.has = Content{Revision: revision, First: first, Last: map[string]Write{}}
	for _, w := range writes {
		p.has.Last[w.Key] = w
		if w.Revision >= first {
			p.has.Writes = append(p.has.Writes, w)
		}
	}
}

// forked is goodPast, but b has decided through revision 4, and counts from 1,000
// on. The one write of a that has no answer has happened above that.
func forkedPast() *past {
	p := goodPast()
	p.GivenUp(1, 4)
	p.next.Revision, p.again.Revision = 1001, 1001
	p.serves(1001, 1001, p.one.of(2), p.swapped.of(4), p.next.of(1001))
	return p
}

func (p *past) broken() (rules []Rule) {
	for _, v := range p.judge(p.now(), p.has) {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestGoodPastsAreAccepted(t *testing.T) {
	if v := goodPast().broken(); len(v) > 0 {
		t.Errorf("one that loses nothing: %v", v)
	}
	if v := forkedPast().broken(); len(v) > 0 {
		t.Errorf("one that loses something: %v", v)
	}
	if v := New().judge(record{}, Content{First: 1}); len(v) > 0 {
		t.Errorf("none: %v", v)
	}
}

// Each bad past breaks the rule that it is for. It may break others too.
func TestBadPastsAreRefused(t *testing.T) {
	for _, c := range []struct {
		what  string
		rule  Rule
		spoil func(p *past)
	}{
		{"an acknowledged write is not at the owner", Lost, func(p *past) {
			p.serves(1, 6, p.shared.of(3), p.swapped.of(4), p.lost.of(5), p.next.of(6))
		}},
		{"an acknowledged write was overwritten, but never there", Lost, func(p *past) {
			p.serves(1, 6, p.one.of(2), p.swapped.of(4), p.lost.of(5), p.next.of(6))
		}},
		{"what only a watch has shown is not at the owner", Vanished, func(p *past) {
			p.serves(1, 6, p.one.of(2), p.shared.of(3), p.swapped.of(4), p.next.of(6))
		}},
		{"what only a read has shown is not at the owner", Vanished, func(p *past) {
			p.watched.events = nil
			p.old.Key, p.old.Revision, p.old.Read, p.old.Modified = p.lost.Key, 5, p.lost.Wrote, 5
			p.serves(1, 6, p.one.of(2), p.shared.of(3), p.swapped.of(4), p.next.of(6))
		}},
		{"the owner has what nobody wrote", Foreign, func(p *past) { p.has.Writes[0].Value = "x" }},
		{"a swap is there that was refused", Foreign, func(p *past) { p.has.Last[p.refused.Key] = p.refused.of(4) }},
		{"a read finds the value of another key", Foreign, func(p *past) { p.read.Read = p.one.Wrote }},
		{"a write without an answer was done twice", Twice, func(p *past) {
			p.has.Last[p.lost.Key] = p.lost.of(7)
		}},
		{"b uses a revision again", Reused, func(p *past) { p.next.Revision = 5 }},
		{"b uses a revision again that was given up", Reused, func(p *past) {
			p.GivenUp(1, 4)
			p.next.Revision, p.again.Revision = 5, 5
			p.serves(5, 5, p.one.of(2), p.swapped.of(4), p.next.of(5))
		}},
		{"a acknowledges after b has", TwoOwners, func(p *past) {
			late := p.call(Op{Kind: Put, Tenancy: 1, Member: "a", Key: "w/5"}, 22, 23)
			late.Applied, late.Revision = true, 7
		}},
		{"a acknowledges after b has, and it was decided", TwoOwners, func(p *past) {
			*p = *forkedPast()
			late := p.call(Op{Kind: Put, Tenancy: 1, Member: "a", Key: "w/5"}, 22, 23)
			late.Applied, late.Revision = true, 7
		}},
		{"a answers a read after b has acknowledged", WentBack, func(p *past) { p.read.Call, p.read.Return = seconds(22), seconds(23) }},
		{"the same, and it was decided", WentBack, func(p *past) {
			*p = *forkedPast()
			p.read.Call, p.read.Return = seconds(22), seconds(23)
		}},
		{"a read is older than a write before it", WentBack, func(p *past) { p.again.Call, p.again.Return, p.again.Revision = seconds(30), seconds(31), 5 }},
		{"a write is older than a read before it", WentBack, func(p *past) { p.read.Revision = 4 }},
		{"a write without an answer is older than a read before it was asked for", WentBack, func(p *past) {
			p.lost.Call = seconds(40)
		}},
		{"a read has an old value", WrongRead, func(p *past) { p.again.Read, p.again.Modified = p.shared.Wrote, 3 }},
		{"a read has nothing", WrongRead, func(p *past) { p.again.Read, p.again.Modified = "", 0 }},
		{"a serializable read has too much", WrongRead, func(p *past) { p.old.Read, p.old.Modified = p.shared.Wrote, 3 }},
		{"a swap was applied to another revision", WrongRead, func(p *past) { p.swapped.Was = 2 }},
		{"a swap was refused at its revision", WrongRead, func(p *past) { p.refused.Was = 4 }},
		{"a watch leaves something out", Watched, func(p *past) { p.watched.events = slices.Delete(p.watched.events, 1, 2) }},
		{"a watch goes back", Watched, func(p *past) { slices.Reverse(p.watched.events) }},
		{"a watch begins late", Watched, func(p *past) { p.watched.from = 2 }},
		{"b has more of a than was decided", Undecided, func(p *past) {
			*p = *forkedPast()
			p.serves(1001, 1001, p.one.of(2), p.swapped.of(4), p.lost.of(5), p.next.of(1001))
		}},
		{"b has less of a than was decided", Lost, func(p *past) {
			*p = *forkedPast()
			p.serves(1001, 1001, p.swapped.of(4), p.next.of(1001))
		}},
		{"no order of the calls makes the values", NoRegister, func(p *past) { p.again.Read, p.again.Modified = p.shared.Wrote, 3 }},
	} {
		p := goodPast()
		c.spoil(p)
		if got := p.broken(); !slices.Contains(got, c.rule) {
			t.Errorf("%s: broken is %v, want %s", c.what, got, c.rule)
		}
	}
}

// etcd does what one does, at the moments at which the calls have their effect.
type etcd struct {
	*History
	dice     *rand.Rand
	has      Content
	told     map[string]int64 // the revision of a key that a client was told last
	revision int64
	moment   int
}

// calls lets clients make n calls, which overlap.
func (e *etcd) calls(tenancy, n int) {
	for range n {
		e.moment += 1 + e.dice.IntN(3)
		o := Op{Kind: []Kind{Put, Put, Swap, Get, Peek}[e.dice.IntN(5)], Tenancy: tenancy, Member: fmt.Sprint("m", tenancy)}
		o.Key = fmt.Sprint("r/", e.dice.IntN(3))
		now := e.has.Last[e.Prefix+o.Key]
		o.Was = e.told[o.Key]
		answered := e.moment + 1 + e.dice.IntN(9)
		if e.dice.IntN(8) == 0 {
			answered = 0
		}
		p := e.call(o, max(0, e.moment-e.dice.IntN(9)), answered)
		switch {
		case answered == 0 && e.dice.IntN(2) == 0: // it never arrives
		case o.Kind == Put, o.Kind == Swap && o.Was == now.Revision:
			e.revision += 1 + e.dice.Int64N(3)
			e.has.Last[p.Key], e.has.Writes = p.of(e.revision), append(e.has.Writes, p.of(e.revision))
			p.Applied = p.Answered
		default:
			p.Read, p.Modified = now.Value, now.Revision
		}
		p.Revision = e.revision
		if p.Answered {
			e.told[o.Key] = e.has.Last[p.Key].Revision
		}
	}
	e.has.Revision = e.revision
}

// watches lets somebody watch from anywhere to now.
func (e *etcd) watches(tenancy int) {
	from := 1 + e.dice.Int64N(e.revision)
	i, _ := slices.BinarySearchFunc(e.has.Writes, Write{Revision: from}, byRevision)
	e.watch(&stream{tenancy: tenancy, member: fmt.Sprint("m", tenancy), from: from, events: slices.Clone(e.has.Writes[i:])})
}

// A past that one etcd has made is accepted, handed over by the source or by force.
func TestWhatOneEtcdDoesIsAccepted(t *testing.T) {
	for seed := range uint64(300) {
		e := &etcd{History: New(), dice: rand.New(rand.NewPCG(seed, 1)), told: map[string]int64{}, revision: 1}
		e.has = Content{First: 1, Last: map[string]Write{}}
		e.calls(e.Tenancy("a"), 60)
		e.watches(1)
		if seed%2 == 1 {
			e.force()
		}
		e.moment += 20
		e.calls(e.Tenancy("b"), 60)
		if seed%2 == 0 {
			e.watches(2)
		}
		for _, v := range e.judge(e.now(), e.has) {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
}

// force gives up what was written last.
func (e *etcd) force() {
	n := len(e.has.Writes)
	keep := e.has.Writes[:n-min(n, e.dice.IntN(10))]
	e.has = Content{First: 1_000_000, Last: map[string]Write{}}
	through := int64(0)
	for _, w := range keep {
		e.has.Last[w.Key], through = w, w.Revision
	}
	e.GivenUp(1, through)
	e.told = map[string]int64{}
	e.revision = 1_000_000
}
