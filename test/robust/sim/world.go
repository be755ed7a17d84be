package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Result is what one seed has come to.
type Result struct {
	Seed      uint64
	Violation string // empty: none
	Story     []string
	Hash      uint64        // of the story
	Virtual   time.Duration // that passed
	Decisions int           // of hand-overs
	Lossy     int           // of them
	Acked     int           // writes
	Excused   int           // writes just after a machine stood still
	Counts    map[string]int
}

// world is one simulation.
type world struct {
	t     *testing.T
	seed  uint64
	set   Settings
	fate  *dice // what goes wrong at steps of sync objects
	names *dice // of operations
	plan  plan
	ctx   context.Context // of the world: ends with it
	end   context.CancelCauseFunc
	began time.Time
	tasks sync.WaitGroup

	sites []*site

	mu      sync.Mutex // guards what follows, and the state of every site
	over    bool       // nothing has an effect any more
	story   []string
	faulty  []string // violations
	writes  int64    // ids given to writes
	truth   truth
	healing bool // no more faults
	blows   int  // misfortunes that were not planned
	counts  map[string]int
}

// Run simulates what a seed means, in a bubble of virtual time.
func (w *world) run() Result {
	defer func() { w.end(errOver) }()
	w.say("", "seed %d: %s", w.seed, w.plan)
	first := w.sites[0]
	first.powerOn()
	first.startServer()
	w.tasks.Go(w.operate)
	w.tasks.Go(w.misfortune)
	w.tasks.Go(w.watch)
	w.sleep(w.plan.length)
	if w.going() {
		w.heal()
	}
	w.shutDown()
	return w.result()
}

func (w *world) result() Result {
	h := fnv.New64a()
	for _, line := range w.story {
		_, _ = h.Write([]byte(line))
	}
	r := Result{
		Seed: w.seed, Story: w.story, Hash: h.Sum64(), Virtual: time.Since(w.began),
		Decisions: w.truth.decisions, Lossy: w.truth.lossy, Acked: len(w.truth.acked), Excused: w.truth.excused, Counts: w.counts,
	}
	if len(w.faulty) > 0 {
		r.Violation = w.faulty[0]
	}
	return r
}

// shutDown ends every process, and waits for what is on its way.
func (w *world) shutDown() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.end(errOver)
	for _, s := range w.sites {
		for _, l := range s.processes() {
			l.crash()
		}
	}
	w.tasks.Wait()
}

// sleep returns when d has passed or the world ends.
func (w *world) sleep(d time.Duration) { pause(w.ctx, d) }

// going reports whether the world goes on.
func (w *world) going() bool { return w.ctx.Err() == nil }

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// say adds a line to the story.
func (w *world) say(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(who, format, args...)
}

// note is say for those who hold mu.
func (w *world) note(who, format string, args ...any) {
	if w.over {
		return
	}
	if who != "" {
		who += ": "
	}
	w.story = append(w.story, fmt.Sprintf("%9.3f  %s%s", time.Since(w.began).Seconds(), who, fmt.Sprintf(format, args...)))
}

// count counts what has happened. The caller holds mu.
func (w *world) count(what string) {
	if !w.over {
		w.counts[what]++
	}
}

// violated notes that an invariant does not hold, and ends the world. The caller
// holds mu.
func (w *world) violated(invariant, format string, args ...any) {
	if w.over || len(w.faulty) > 0 {
		return
	}
	what := invariant + ": " + fmt.Sprintf(format, args...)
	w.note("", "VIOLATION %s", what)
	w.faulty = append(w.faulty, what)
	w.end(errOver)
}

// dice are the random numbers of one party, in the order in which it draws them.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// dice returns the dice of a party.
func (w *world) dice(party string) *dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(party))
	return &dice{r: rand.New(rand.NewPCG(w.seed, h.Sum64()))} //nolint:gosec // it has to be predictable
}

// share returns a number in [0,1).
func (d *dice) share() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}

// chance is true with probability p.
func (d *dice) chance(p float64) bool { return d.share() < p }

// between returns a time from least to most, in nanoseconds, so that no two things
// happen at the same instant.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.share()*float64(most-least))
}

// upTo returns a number in [0,n).
func (d *dice) upTo(n int) int { return int(d.share() * float64(n)) }

// Read makes dice a source of random bytes.
func (d *dice) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range p {
		p[i] = byte(d.r.Uint64())
	}
	return len(p), nil
}

// newWorld is called in the bubble.
func newWorld(t *testing.T, seed uint64, set Settings) *world {
	w := &world{t: t, seed: seed, set: set, began: time.Now(), counts: map[string]int{}}
	w.ctx, w.end = context.WithCancelCause(t.Context())
	uuid.SetRand(w.dice("uuid"))
	w.plan, w.fate, w.names = w.drawPlan(), w.dice("fate"), w.dice("names")
	w.truth = newTruth()
	for i := range w.plan.sites {
		w.sites = append(w.sites, newSite(w, string(rune('a'+i))))
	}
	w.truth.holder = w.sites[0].name
	return w
}

// Tell returns the story as it is printed.
func (r Result) Tell() string { return strings.Join(r.Story, "\n") }
