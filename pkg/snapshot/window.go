package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is a stretch of history that can be restored.
type Window struct {
	Lineage string `json:"lineage"`
	// First and Last are revisions. If Exact, each one from First to Last can be
	// restored. If not, it is one full that no delta continues far enough: it
	// holds one of these revisions, and reading it tells which.
	First int64     `json:"firstRevision"`
	Last  int64     `json:"lastRevision"`
	Exact bool      `json:"exact"`
	From  time.Time `json:"from"` // when the full was cut that the window begins with
	To    time.Time `json:"to"`   // when the last snapshot of it was cut
}

// String says it in words.
func (w Window) String() string {
	from, to := w.From.Format(time.RFC3339), w.To.Format(time.RFC3339)
	switch {
	case !w.Exact:
		return fmt.Sprintf("one revision of %d to %d (time %s)", w.First, w.Last, from)
	case w.First == w.Last:
		return fmt.Sprintf("revision %d (time %s)", w.First, to)
	default:
		return fmt.Sprintf("revisions %d to %d (times %s to %s)", w.First, w.Last, from, to)
	}
}

// Windows returns what can be restored: by lineage, as Chains sorts them, then
// by revision. Exact windows of a lineage are apart by at least one revision.
func Windows(ms []Manifest) []Window {
	var all []Window
	for _, h := range histories(ms) {
		all = append(all, h.windows()...)
	}
	return all
}

func (h history) windows() []Window {
	var each []Window
	for _, full := range h.fulls {
		each = append(each, windowOf(h.chain(full)))
	}
	slices.SortStableFunc(each, func(a, b Window) int { return cmp.Compare(a.First, b.First) })
	var merged []Window
	exact := -1 // the last one in merged
	for _, w := range each {
		if exact >= 0 && w.Exact && w.First-1 <= merged[exact].Last {
			merged[exact].extend(w)
			continue
		}
		merged = append(merged, w)
		if w.Exact {
			exact = len(merged) - 1
		}
	}
	return merged
}

func windowOf(c Chain) Window {
	w := Window{Lineage: c.Full.Lineage, From: c.Full.Time, To: c.end().Time}
	if c.Last() < c.Full.Last {
		w.First, w.Last = c.Full.First, c.Full.Last
		return w
	}
	w.First, w.Last, w.Exact = c.Full.Last, c.Last(), true
	return w
}

// extend adds an exact window that begins in or right after w.
func (w *Window) extend(next Window) {
	if next.Last > w.Last {
		w.Last, w.To = next.Last, next.To
	}
}

// windowsShown bounds the length of error messages.
const windowsShown = 5

// available ends an error message with what can be restored instead.
func (h history) available() string {
	ws := h.windows()
	var words []string
	if n := len(ws) - windowsShown; n > 0 {
		words, ws = append(words, fmt.Sprintf("%d earlier ones", n)), ws[n:]
	}
	for _, w := range ws {
		words = append(words, w.String())
	}
	return "; can be restored: " + strings.Join(words, ", ")
}
