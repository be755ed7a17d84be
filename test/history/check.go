package history

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Rule is what one etcd obeys, see the package's page.
type Rule string

// The rules.
const (
	Lost       Rule = "lost"
	Vanished   Rule = "vanished"
	Foreign    Rule = "foreign"
	Twice      Rule = "twice"
	Reused     Rule = "reused"
	TwoOwners  Rule = "two owners"
	WentBack   Rule = "went back"
	WrongRead  Rule = "wrong read"
	Watched    Rule = "watch"
	Undecided  Rule = "undecided"
	NoRegister Rule = "no register"
)

// Violation is a rule that is broken.
type Violation struct {
	Rule
	Times int
	First string // by what first
}

func (v Violation) String() string { return fmt.Sprintf("%s (%d times): %s", v.Rule, v.Times, v.First) }

// Check asks an etcd that is the owner for what it has, and returns what one etcd
// would not have done. Clients may go on meanwhile. An error says that etcd did not
// answer.
func (h *History) Check(ctx context.Context, owner *clientv3.Client) ([]Violation, error) {
	r := h.now() // what is answered later need not be there
	has, err := h.Content(ctx, owner)
	if err != nil {
		return nil, err
	}
	return h.judge(r, has), nil
}

// judge holds a record against what the owner has.
func (h *History) judge(r record, has Content) []Violation {
	j := &judge{past: h, record: r, has: has, known: map[string]Write{}, at: map[int64]Write{}, there: map[Write]bool{}}
	j.learn()
	j.owners()
	main := j.branch(r.tenancy, r.forks)
	j.kept(main)
	j.decided()
	branches := []branch{main}
	for i, f := range r.forks {
		branches = append(branches, j.branch(f.tenancy, r.forks[:i]))
	}
	for _, b := range branches {
		j.order(b)
		j.reads(b)
		j.watches(b)
		j.registers(b)
	}
	return j.broken
}

// judge is one look at a history.
type judge struct {
	record
	past   *History
	has    Content
	known  map[string]Write // all writes that somebody has seen, by value
	at     map[int64]Write  // and by revision
	there  map[Write]bool   // has.Writes
	broken []Violation
}

func (j *judge) broke(rule Rule, format string, args ...any) {
	i := slices.IndexFunc(j.broken, func(v Violation) bool { return v.Rule == rule })
	if i < 0 {
		i = len(j.broken)
		j.broken = append(j.broken, Violation{Rule: rule, First: fmt.Sprintf(format, args...)})
	}
	j.broken[i].Times++
}

// learn finds out which writes have happened, and at which revisions.
func (j *judge) learn() {
	for _, o := range j.ops {
		switch {
		case o.Applied:
			j.saw(Write{o.Revision, o.Key, o.Wrote}, "the answer of "+o.Member)
		case o.reads() && o.Modified > 0:
			j.saw(Write{o.Modified, o.Key, o.Read}, "a read at "+o.Member)
		}
	}
	for _, s := range j.streams {
		for _, w := range s.events {
			j.saw(w, "a watch at "+s.member)
		}
	}
	for _, w := range j.has.Writes {
		j.there[w] = true
		j.saw(w, "the owner")
	}
	for _, w := range j.has.Last {
		j.saw(w, "the owner")
	}
}

// saw takes note of a write that somebody has seen.
func (j *judge) saw(w Write, who string) {
	o, ok := j.past.wrote(w.Value)
	if !ok || o.Key != w.Key || o.Answered && !o.Applied {
		j.broke(Foreign, "%s has %s = %.20s at revision %d, which nobody wrote", who, w.Key, w.Value, w.Revision)
		return
	}
	if before, seen := j.known[w.Value]; seen && before != w {
		j.broke(Twice, "%s has %s at revision %d, it is at %d already", who, w.Key, w.Revision, before.Revision)
	}
	if before, seen := j.at[w.Revision]; seen && before != w {
		j.broke(Reused, "%s has %s at revision %d, which is %s", who, w.Key, w.Revision, before.Key)
	}
	j.known[w.Value], j.at[w.Revision] = w, w
}

// owners looks at who answers when another has taken over.
func (j *judge) owners() {
	first := map[int]Op{} // the first write that a tenancy has acknowledged
	for _, o := range j.ops {
		if f, ok := first[o.Tenancy]; o.Applied && (!ok || o.Return < f.Return) {
			first[o.Tenancy] = o
		}
	}
	for tenancy, f := range first {
		for _, o := range j.ops {
			switch late := o.linear() && o.Tenancy < tenancy && o.Call > f.Return; {
			case late && o.Applied:
				j.broke(TwoOwners, "%s, after %s had acknowledged %s at %.6f s", o, f.Member, f.Key, f.Return.Seconds())
			case late:
				j.broke(WentBack, "%s, after %s had acknowledged %s at %.6f s", o, f.Member, f.Key, f.Return.Seconds())
			}
		}
	}
}

// kept looks whether the owner has what has happened.
func (j *judge) kept(b branch) {
	for _, o := range b.ops {
		switch {
		case o.Applied && !j.holds(Write{o.Revision, o.Key, o.Wrote}):
			j.broke(Lost, "%s", o)
		case o.reads() && o.Modified > 0 && !j.holds(Write{o.Modified, o.Key, o.Read}):
			j.broke(Vanished, "%s of revision %d, that %s has read at %.6f s", o.Key, o.Modified, o.Member, o.Return.Seconds())
		}
	}
	for _, s := range b.streams {
		for _, w := range s.events {
			if !j.holds(w) {
				j.broke(Vanished, "%s of revision %d, that was watched at %s", w.Key, w.Revision, s.member)
			}
		}
	}
}

// holds reports whether the owner has a write. What is compacted may have been
// overwritten since.
func (j *judge) holds(w Write) bool {
	if w.Revision >= j.has.First {
		return j.there[w]
	}
	last := j.has.Last[w.Key]
	return last == w || last.Revision > w.Revision
}

// decided looks for what the owner has and should not.
func (j *judge) decided() {
	for _, w := range j.has.Last {
		j.mayHave(w)
	}
	for _, w := range j.has.Writes {
		j.mayHave(w)
	}
}

func (j *judge) mayHave(w Write) {
	o, _ := j.past.wrote(w.Value)
	for _, f := range j.forks {
		if o.Tenancy > 0 && o.Tenancy <= f.tenancy && w.Revision > f.through {
			j.broke(Undecided, "%s of revision %d, through %d was decided", w.Key, w.Revision, f.through)
		}
	}
}
