package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// branch is what one etcd has to have done: the history up to an end, without what
// was given up on the way.
type branch struct {
	ops     []Op // that were answered
	open    []Op // writes that were not, and have happened
	streams []stream
	writes  []Write            // all of them, by revision
	of      map[string][]Write // a key
}

// branch returns what belongs to the tenancies up to one, with these forks.
func (j *judge) branch(tenancy int, forks []fork) branch {
	keeps := func(t int, revision int64) bool {
		return t <= tenancy && !slices.ContainsFunc(forks, func(f fork) bool { return t <= f.tenancy && revision > f.through })
	}
	b := branch{of: map[string][]Write{}}
	for _, o := range j.ops {
		w, seen := j.known[o.Wrote]
		switch {
		case o.Answered && keeps(o.Tenancy, o.Revision):
			b.ops = append(b.ops, o)
		case !o.Answered && seen && keeps(o.Tenancy, w.Revision):
			o.Applied, o.Revision, o.Return = true, w.Revision, math.MaxInt64
			b.open = append(b.open, o)
		}
	}
	for _, s := range j.streams {
		s.events = slices.DeleteFunc(slices.Clone(s.events), func(w Write) bool { return !keeps(s.tenancy, w.Revision) })
		b.streams = append(b.streams, s)
	}
	for _, w := range j.known {
		if o, _ := j.past.wrote(w.Value); keeps(o.Tenancy, w.Revision) {
			b.writes = append(b.writes, w)
			b.of[w.Key] = append(b.of[w.Key], w)
		}
	}
	slices.SortFunc(b.writes, byRevision)
	for _, of := range b.of {
		slices.SortFunc(of, byRevision)
	}
	return b
}

func byRevision(a, b Write) int { return cmp.Compare(a.Revision, b.Revision) }

// order looks whether what was asked for after an answer is older than it.
func (j *judge) order(b branch) {
	asked := slices.DeleteFunc(slices.Concat(b.ops, b.open), func(o Op) bool { return !o.linear() && !o.Applied })
	answered := slices.Clone(b.ops)
	answered = slices.DeleteFunc(answered, func(o Op) bool { return !o.linear() })
	slices.SortFunc(asked, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(answered, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	var newest Op
	for _, o := range asked {
		for len(answered) > 0 && answered[0].Return < o.Call {
			if answered[0].Revision > newest.Revision {
				newest = answered[0]
			}
			answered = answered[1:]
		}
		if o.Revision < newest.Revision || o.Applied && o.Revision == newest.Revision {
			j.broke(WentBack, "%s, of revision %d, after %s", o, o.Revision, newest)
		}
	}
}

// reads looks whether reads have what was there at their revisions.
func (j *judge) reads(b branch) {
	for _, o := range slices.Concat(b.ops, b.open) {
		at := o.Revision
		if o.Applied {
			at--
		}
		var there Write
		of := b.of[o.Key]
		if i, exact := slices.BinarySearchFunc(of, Write{Revision: at}, byRevision); exact {
			there = of[i]
		} else if i > 0 {
			there = of[i-1]
		}
		found := there.Value == o.Read && there.Revision == o.Modified
		switch {
		case o.reads() && !found:
			j.broke(WrongRead, "%s: it found what is of revision %d, there was what is of %d", o, o.Modified, there.Revision)
		case o.Kind == Swap && o.Applied != (there.Revision == o.Was):
			j.broke(WrongRead, "%s: it was to be of revision %d, is of %d, and applied: %v", o, o.Was, there.Revision, o.Applied)
		}
	}
}

// watches looks whether watches were sent all, in order.
func (j *judge) watches(b branch) {
	for _, s := range b.streams {
		if len(s.events) == 0 {
			continue
		}
		first, _ := slices.BinarySearchFunc(b.writes, Write{Revision: s.from}, byRevision)
		for i, w := range s.events {
			if first+i >= len(b.writes) || b.writes[first+i] != w {
				j.broke(Watched, "at %s, from revision %d on: event %d is of revision %d, and should be another", s.member, s.from, i+1, w.Revision)
				break
			}
		}
	}
}

// register is a key as porcupine sees it.
type register struct {
	value    string
	revision int64
}

var registers = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		was, o := state.(register), input.(Op)
		switch {
		case !o.Applied:
			return o.Read == was.value && o.Modified == was.revision && (o.Kind != Swap || o.Was != was.revision), was
		case o.Kind == Swap && o.Was != was.revision:
			return false, was
		}
		return true, register{o.Wrote, o.Revision}
	},
}

// patience is how long porcupine may think about a key.
const patience = 20 * time.Second

// registers has porcupine look at each key that was read.
func (j *judge) registers(b branch) {
	calls, read := map[string][]porcupine.Operation{}, map[string]bool{}
	seen := map[string]time.Duration{} // when a value was first read
	for _, o := range b.ops {
		if t, ok := seen[o.Read]; o.reads() && o.linear() && (!ok || o.Return < t) {
			seen[o.Read] = o.Return
		}
	}
	for _, o := range slices.Concat(b.ops, b.open) {
		if t, ok := seen[o.Wrote]; ok && !o.Answered {
			o.Return = t
		}
		if o.linear() || o.Applied {
			calls[o.Key] = append(calls[o.Key], porcupine.Operation{Input: o, Call: int64(o.Call), Return: int64(o.Return)})
			read[o.Key] = read[o.Key] || o.Kind != Put
		}
	}
	for key, is := range read {
		if !is { // nobody can tell
			continue
		}
		if result := porcupine.CheckOperationsTimeout(registers, calls[key], patience); result != porcupine.Ok {
			j.broke(NoRegister, "%s, %d calls: %s", key, len(calls[key]), result)
		}
	}
}
