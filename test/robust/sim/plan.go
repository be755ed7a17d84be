package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// Defect is a fault that is put in on purpose, to see that it is found.
type Defect string

// The defects.
const (
	NoDefect          Defect = ""
	IgnoresConditions Defect = "a store that ignores conditions"
	ShortWait         Defect = "W below the bound, and the check is bypassed"
	NoWatchdog        Defect = "no kubelet ends an etcd whose sidecar is silent"
	LyingFence        Defect = "a fence that ends nothing"
	OpenGate          Defect = "a gate that does not ask"
	StaleFinal        Defect = "a final snapshot that lacks the last write"
	SlowClock         Defect = "a clock of the first site that takes twice its time"
)

// Settings say how a seed is run.
type Settings struct {
	Defect Defect
	Drop   map[int]bool // misfortunes that do not happen, by number
	Quiet  bool         // nothing ever goes wrong
	Log    bool         // the story has all that the product logs
	Dir    string       // a folder that nobody writes to
	Theme  Theme
}

// plan is all that is drawn before a world begins.
type plan struct {
	sites  int
	length time.Duration // until everything is mended
	rounds int           // of hand-overs
	timing server.Timing
	wait   time.Duration // W
	force  copier.Force
	rho    float64
	luck   float64 // the higher, the less goes wrong in good weather
	far    float64 // by which messages take longer
	early  bool    // servers of destinations are started beside the copy
	// implicit is false for owners that go on serving when their lease is over.
	implicit bool
	bad      []misfortune
}

func (p plan) String() string {
	t := p.timing
	return fmt.Sprintf("%d sites, %d rounds, %.0f s; P %v R %v L %v K %v G %v W %v, force %s, implicit %v, %d misfortunes",
		p.sites, p.rounds, p.length.Seconds(), t.Poll, t.Read, t.Lease, t.Kill, t.Watchdog, p.wait, p.force, p.implicit, len(p.bad))
}

const second = time.Second

// timings that are tried: those of small installations, and the presets.
func timings() []server.Timing {
	quick := server.DefaultTiming()
	quick.Poll, quick.Read, quick.Lease, quick.Kill, quick.Watchdog, quick.Grace = 5*second, 3*second, 30*second, 8*second, 30*second, 5*second
	quick.Tick, quick.Heartbeat = 1500*time.Millisecond, 15*second
	middle := server.DefaultTiming()
	middle.Lease, middle.Kill, middle.Watchdog, middle.Tick = 60*second, 15*second, 45*second, 2*second
	preset := server.DefaultTiming()
	return []server.Timing{quick, quick, middle, preset}
}

func (w *world) drawPlan() plan {
	d := w.dice("plan")
	p := plan{sites: 2, rounds: 1 + d.upTo(3), rho: syncobject.DefaultClockError}
	if d.chance(0.3) {
		p.sites = 3
	}
	all := timings()
	p.timing = all[d.upTo(len(all))]
	bound := syncobject.Timing{
		Lease: p.timing.Lease, Kill: p.timing.Kill, Watchdog: p.timing.Watchdog,
		ClockError: p.rho, Slack: syncobject.DefaultSlack,
	}.Bound()
	// The first owner.json of a container that was handed over has the presets.
	p.wait = max(bound, syncobject.DefaultTiming().Bound()*time.Duration(min(1, p.rounds-1)))
	if d.chance(0.3) && w.set.Theme == AnyTheme { // else nobody waits for longer than he must
		p.wait = max(p.wait, syncobject.DefaultForceAfter)
	}
	p.force = copier.ForceSafely
	if d.chance(0.12) {
		p.force = copier.ForceNever
	}
	p.implicit = !d.chance(0.05)
	p.luck = []float64{250, 250, 50, 12}[d.upTo(4)]
	p.far = []float64{1, 1, 4, 20}[d.upTo(4)]
	p.early = d.chance(0.15)
	p.length = d.between(8*time.Minute, 16*time.Minute) + time.Duration(p.rounds)*(p.wait+2*time.Minute)
	if !w.set.Quiet {
		p.bad = drawMisfortunes(d, p, themes[w.set.Theme])
	}
	return p
}

// lasting draws a duration on a logarithmic scale.
func lasting(d *dice, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), d.share()))
}
