package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	// width of the charts, in units of their own: they are as wide as there is room.
	width = 720
	// columns are what the time is cut into; one is 3 units wide.
	columns     = 240
	sizeHeight  = 96
	rateHeight  = 48
	ticks       = 5
	chartSpan   = 24 * time.Hour
	chartLeast  = 10 * time.Minute // so that a beginning does not look like a storm
	fewest      = 20               // snapshots, however old, if the span has none
	smallestBar = 6                // units, for what is too small to see
	recentShown = 12
)

// Chart is when what was stored, and how fast revisions came.
type Chart struct {
	From, To time.Time
	Bars     []Bar
	Rate     string // path of an area
	Largest  int64  // bytes
	Fastest  float64
	Ticks    []time.Time
	Words    string // what is to be seen, for those who do not
}

// Bar is the sum of the fulls or deltas of one column.
type Bar struct {
	Full                bool
	X, Y, Width, Height int
}

// NewChart draws sound snapshots in any order; nil if there are none.
func NewChart(all []snapshot.Manifest, now time.Time) *Chart {
	ms := slices.Clone(all)
	slices.SortStableFunc(ms, func(a, b snapshot.Manifest) int { return a.Time.Compare(b.Time) })
	ms = slices.DeleteFunc(ms, func(m snapshot.Manifest) bool { return m.Time.After(now) })
	if len(ms) == 0 {
		return nil
	}
	shown := slices.IndexFunc(ms, func(m snapshot.Manifest) bool { return now.Sub(m.Time) < chartSpan })
	if shown < 0 {
		shown = max(0, len(ms)-fewest)
	}
	c := &Chart{From: ms[shown].Time, To: now}
	if c.To.Sub(c.From) < chartLeast {
		c.From = c.To.Add(-chartLeast)
	}
	c.sizes(ms[shown:])
	c.rate(ms[max(0, shown-1):])
	for i := range ticks {
		c.Ticks = append(c.Ticks, c.From.Add(c.To.Sub(c.From)*time.Duration(i)/(ticks-1)))
	}
	c.say(ms[shown:])
	return c
}

// column is that of a time; those before and after the chart are at its ends.
func (c *Chart) column(t time.Time) int {
	return max(0, min(columns-1, int(float64(columns)*float64(t.Sub(c.From))/float64(c.To.Sub(c.From)))))
}

func (c *Chart) sizes(ms []snapshot.Manifest) {
	var fulls, deltas [columns]int64
	for _, m := range ms {
		if m.Kind == snapshot.Full {
			fulls[c.column(m.Time)] += m.StoredSize
		} else {
			deltas[c.column(m.Time)] += m.StoredSize
		}
	}
	c.Largest = max(slices.Max(fulls[:]), slices.Max(deltas[:]))
	const unit = width / columns
	for i := range columns {
		if fulls[i] > 0 { // behind, and wider: it is rare and matters
			h := c.height(fulls[i])
			c.Bars = append(c.Bars, Bar{Full: true, X: max(0, i*unit-1), Y: sizeHeight - h, Width: unit + 2, Height: h})
		}
	}
	for i := range columns {
		if deltas[i] > 0 {
			h := c.height(deltas[i])
			c.Bars = append(c.Bars, Bar{X: i * unit, Y: sizeHeight - h, Width: unit - 1, Height: h})
		}
	}
}

// height grows with the logarithm of a size: a delta is a thousandth of a full.
func (c *Chart) height(size int64) int {
	const floor = 1 << 10 // bytes, of which a bar would have no height
	share := math.Log(max(1, float64(size)/floor)) / math.Log(max(math.E, float64(c.Largest)/floor))
	return max(smallestBar, int(share*sizeHeight))
}

// rate draws how many revisions a second there were between two snapshots.
func (c *Chart) rate(ms []snapshot.Manifest) {
	var revisions [columns]float64
	column := c.To.Sub(c.From).Seconds() / columns
	for i := 1; i < len(ms); i++ {
		before, m := ms[i-1], ms[i]
		grown, took := float64(m.Last-before.Last), m.Time.Sub(before.Time).Seconds()
		if grown <= 0 || took <= 0 || m.Lineage != before.Lineage {
			continue
		}
		first, last := before.Time.Sub(c.From).Seconds(), m.Time.Sub(c.From).Seconds()
		for at := c.column(before.Time); at <= c.column(m.Time); at++ { // each has its part of the time
			part := min(last, float64(at+1)*column) - max(first, float64(at)*column)
			revisions[at] += grown * max(0, part) / took
		}
	}
	perSecond := 1 / column
	c.Fastest = slices.Max(revisions[:]) * perSecond
	if c.Fastest == 0 {
		return
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M0 %d", rateHeight)
	for i, n := range &revisions {
		fmt.Fprintf(&path, "V%dH%d", rateHeight-int(math.Round(rateHeight*n*perSecond/c.Fastest)), (i+1)*width/columns)
	}
	fmt.Fprintf(&path, "V%dZ", rateHeight)
	c.Rate = path.String()
}

func (c *Chart) say(ms []snapshot.Manifest) {
	var fulls, deltas int
	for _, m := range ms {
		if m.Kind == snapshot.Full {
			fulls++
		} else {
			deltas++
		}
	}
	c.Words = fmt.Sprintf("%s and %s from %s to %s. The largest bar is %s, the highest rate %s revisions a second.",
		count(fulls, "full"), count(deltas, "delta"), moment(c.From), moment(c.To), bytes(c.Largest), rate(c.Fastest))
}

// Recent returns the newest snapshots, the newest first.
func Recent(all []snapshot.Manifest) []Snapshot {
	ms := slices.Clone(all)
	slices.SortStableFunc(ms, func(a, b snapshot.Manifest) int { return b.Time.Compare(a.Time) })
	var recent []Snapshot
	for _, m := range ms[:min(len(ms), recentShown)] {
		recent = append(recent, Snapshot{
			Kind: string(m.Kind), Final: m.Final, Time: m.Time, First: m.First, Last: m.Last, Size: m.StoredSize,
		})
	}
	return recent
}
