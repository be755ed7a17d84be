package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is what a call asks for.
type Kind string

// The kinds of calls.
const (
	Put  Kind = "put"  // of a value, whatever is there
	Swap Kind = "swap" // of a value, if the key was last changed at revision Was
	Get  Kind = "get"  // linearizable
	Peek Kind = "peek" // serializable
)

// Op is one call of a client, and its answer.
type Op struct {
	Kind
	Tenancy      int // whose etcd was asked, see History.Tenancy
	Member       string
	Key          string
	Wrote        string        // by Put and Swap
	Was          int64         // for Swap
	Call, Return time.Duration // since the beginning
	Answered     bool
	Revision     int64  // of etcd, as it answered; of the write, if Applied
	Applied      bool   // a write was done, as the answer says
	Read         string // what Get, Peek, and a Swap that was not applied found; empty: nothing
	Modified     int64  // revision of that
}

func (o Op) String() string {
	s := fmt.Sprintf("%s %s at %s, asked at %.6f s", o.Kind, o.Key, o.Member, o.Call.Seconds())
	if o.Answered {
		s += fmt.Sprintf(", answered at %.6f s with revision %d", o.Return.Seconds(), o.Revision)
	}
	return s
}

// reads reports whether the answer says what was there.
func (o Op) reads() bool { return o.Answered && !o.Applied }

// linear reports whether the answer is that of the newest state.
func (o Op) linear() bool { return o.Answered && o.Kind != Peek }

// Write is the value of a key since a revision.
type Write struct {
	Revision   int64
	Key, Value string
}

// stream is what one watch was sent.
type stream struct {
	tenancy int
	member  string
	from    int64 // the revision that it was asked for from
	events  []Write
}

// fork is where a decision has given writes up.
type fork struct {
	tenancy int // and those before
	through int64
}

// History is what the clients of one etcd have seen. It may be used by many at a
// time. Create it with New.
type History struct {
	Prefix string // of all keys
	began  time.Time

	mu      sync.Mutex
	ops     []*Op
	streams []*stream
	forks   []fork
	owners  []string
	values  map[string]*Op // who has written what
}

// New returns an empty history.
func New() *History {
	return &History{Prefix: fmt.Sprintf("history/%016x/", rand.Uint64()), began: time.Now(), values: map[string]*Op{}}
}

// Tenancy begins a tenancy of owner, unless the last one was, and returns its
// number. Whoever is asked in an earlier one has been followed by the later ones.
func (h *History) Tenancy(owner string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.owners); n == 0 || h.owners[n-1] != owner {
		h.owners = append(h.owners, owner)
	}
	return len(h.owners)
}

// GivenUp notes that what was written in a tenancy, or before it, is lost above a
// revision: so it was decided.
func (h *History) GivenUp(tenancy int, through int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := (fork{tenancy, through}); !slices.Contains(h.forks, f) {
		h.forks = append(h.forks, f)
	}
}

// begin writes down that something is asked.
func (h *History) begin(o Op) *Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.Kind == Put || o.Kind == Swap {
		o.Wrote = fmt.Sprintf("%016x%048x", rand.Uint64(), len(h.values))
		h.values[o.Wrote] = &o
	}
	o.Call = time.Since(h.began)
	h.ops = append(h.ops, &o)
	return &o
}

// end writes down an answer.
func (h *History) end(o *Op, answer func(o *Op)) Op {
	at := time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	o.Answered, o.Return = true, at
	answer(o)
	return *o
}

func (h *History) watch(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = append(h.streams, s)
}

func (h *History) event(s *stream, w Write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.events = append(s.events, w)
}

// record is what is written down at a moment.
type record struct {
	ops     []Op
	streams []stream
	forks   []fork
	tenancy int // the last one
}

func (h *History) now() record {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := record{forks: slices.Clone(h.forks), tenancy: len(h.owners)}
	for _, o := range h.ops {
		r.ops = append(r.ops, *o)
	}
	for _, s := range h.streams {
		r.streams = append(r.streams, *s)
	}
	return r
}

// wrote returns the call that a value is of.
func (h *History) wrote(value string) (Op, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, ok := h.values[value]
	if !ok {
		return Op{}, false
	}
	return *o, true
}

// Counts tells how many calls of each kind there are, with an answer and without,
// and how many events were watched.
func (h *History) Counts() map[string]int {
	counts := map[string]int{}
	r := h.now()
	for _, o := range r.ops {
		what := string(o.Kind)
		if !o.Answered {
			what += " without an answer"
		}
		counts[what]++
	}
	for _, s := range r.streams {
		counts["event"] += len(s.events)
	}
	return counts
}

func (h *History) String() string {
	var words []string
	for what, n := range h.Counts() {
		words = append(words, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// At is a moment as calls have it.
func (h *History) At(moment time.Time) time.Duration { return moment.Sub(h.began) }
