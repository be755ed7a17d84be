package page

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

var at = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func answer(t *testing.T, s State) (header func(string) string, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := New().Answer(w, s); err != nil {
		t.Fatal(err)
	}
	return w.Header().Get, w.Body.String()
}

// TestPolicyIsOfWhatIsThere: the hashes are of the style and the script as they are
// served, and nothing comes from elsewhere.
func TestPolicyIsOfWhatIsThere(t *testing.T) {
	header, body := answer(t, State{Now: at})
	policy := header("Content-Security-Policy")
	for kind, tag := range map[string]string{"style-src ": "style", "script-src ": "script"} {
		inside := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(body, -1)
		if len(inside) != 1 || !strings.Contains(policy, kind+hash(inside[0][1])) {
			t.Errorf("%d times <%s>, and the policy is %s", len(inside), tag, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the policy is %s", policy)
	}
	if found := regexp.MustCompile(`(?i)(src|href)="(https?:)?//|\son\w+=|\sstyle=|@import|url\(`).FindAllString(body, -1); found != nil {
		t.Errorf("%q in the page", found)
	}
}

func TestStepsOfAHandOver(t *testing.T) {
	initial := syncobject.Object{Status: syncobject.Initial, OperationID: "move", Generation: 2, ObservedGeneration: 1}
	with := func(change ...func(*syncobject.Object)) syncobject.Object {
		o := initial
		for _, c := range change {
			c(&o)
		}
		return o
	}
	source := func(p syncobject.SourcePhase) func(*syncobject.Object) {
		return func(o *syncobject.Object) { o.Source.Phase, o.Source.Error = p, "of the source" }
	}
	destination := func(p syncobject.DestinationPhase) func(*syncobject.Object) {
		return func(o *syncobject.Object) { o.Destination.ID, o.Destination.Phase = "b", p }
	}
	decided := func(by syncobject.Party) func(*syncobject.Object) {
		return func(o *syncobject.Object) {
			o.Status, o.Decision.By, o.Decision.Lossy = syncobject.Ready, by, by == syncobject.Destination
			o.Snapshots.ThroughRevision = 1234
		}
	}
	over := func(outcome syncobject.Outcome, status syncobject.Status) func(*syncobject.Object) {
		return func(o *syncobject.Object) { o.Outcome, o.Status, o.ObservedGeneration = outcome, status, o.Generation }
	}
	for name, c := range map[string]struct {
		object syncobject.Object
		level  Level
		stages string // of wanted, claimed, stopped, final, decided, copied, taken over: done, now, neXt, failed, skipped
		says   string
	}{
		"wanted":         {initial, Wait, "dnnxxxx", "waits for the source's server"},
		"claimed":        {with(destination(syncobject.Waiting)), Wait, "ddnxxxx", "by b"},
		"fencing":        {with(source(syncobject.Fencing)), Wait, "dnnxxxx", "waits for etcd to end"},
		"fence failed":   {with(source(syncobject.FenceFailed)), Wait, "dnfxxxx", "of the source"},
		"snapshotting":   {with(source(syncobject.Snapshotting)), Wait, "dndnxxx", "read and stored"},
		"no final":       {with(source(syncobject.SnapshotFailed)), Wait, "dndfxxx", "of the source"},
		"publishing":     {with(source(syncobject.Publishing)), Wait, "dnddnxx", "waits for the store"},
		"ready":          {with(source(syncobject.Publishing), decided(syncobject.Source)), Wait, "dndddxx", "1\u202f234"},
		"copying":        {with(source(syncobject.Publishing), decided(syncobject.Source), destination(syncobject.Copying)), Wait, "dddddnx", "copy"},
		"committing":     {with(source(syncobject.Publishing), decided(syncobject.Source), destination(syncobject.Committing)), Wait, "ddddddn", "store"},
		"forced":         {with(decided(syncobject.Destination), destination(syncobject.Copying)), Wait, "ddssdnx", "may be missing"},
		"done":           {with(source(syncobject.Publishing), decided(syncobject.Source), destination(syncobject.Finished), over(syncobject.Completed, syncobject.Done)), Quiet, "ddddddd", "the owner is b"},
		"done and lossy": {with(decided(syncobject.Destination), destination(syncobject.Finished), over(syncobject.Completed, syncobject.Done)), Bad, "ddssddd", "1\u202f234"},
		"aborted":        {with(source(syncobject.Snapshotting), over(syncobject.Aborted, syncobject.Initial)), Quiet, "dsdssss", ""},
		"reclaimed":      {with(source(syncobject.Publishing), decided(syncobject.Source), destination(syncobject.Reclaimed), over(syncobject.Aborted, syncobject.Ready)), Quiet, "dddddss", ""},
	} {
		h := NewHandOver(c.object)
		var stages, says []string
		for _, s := range h.Steps {
			letters := map[Stage]string{Done: "d", Now: "n", Next: "x", Failed: "f", Skipped: "s"}
			stages, says = append(stages, letters[s.Stage]), append(says, s.Text)
			if s.Stage == Now && !strings.HasPrefix(s.Text, "waits for") {
				t.Errorf("%s: %q does not say what it waits for: %q", name, s.Title, s.Text)
			}
		}
		if got := strings.Join(stages, ""); h.Level != c.level || got != c.stages || !strings.Contains(strings.Join(says, "\n"), c.says) {
			t.Errorf("%s: %s, %s\nwant %s, %s with %q\n%q", name, h.Level, got, c.level, c.stages, c.says, says)
		}
	}
}

func TestChart(t *testing.T) {
	if NewChart(nil, at) != nil {
		t.Error("a chart of nothing")
	}
	taken := func(kind snapshot.Kind, last, size int64, before time.Duration) snapshot.Manifest {
		return snapshot.Manifest{Kind: kind, Last: last, StoredSize: size, Time: at.Add(-before), Lineage: "l"}
	}
	c := NewChart([]snapshot.Manifest{
		taken(snapshot.Delta, 700, 500, time.Minute),
		taken(snapshot.Full, 100, 1<<20, 10*time.Minute),
		taken(snapshot.Delta, 90, 1<<30, 48*time.Hour), // too old
		taken(snapshot.Delta, 900, 1<<30, -time.Hour),  // of a clock that is wrong
	}, at)
	fulls := slices.DeleteFunc(slices.Clone(c.Bars), func(b Bar) bool { return !b.Full })
	deltas := slices.DeleteFunc(slices.Clone(c.Bars), func(b Bar) bool { return b.Full })
	if len(fulls) != 1 || len(deltas) != 1 || c.Largest != 1<<20 || fulls[0].Height != sizeHeight || deltas[0].Height >= fulls[0].Height || deltas[0].Height < smallestBar {
		t.Errorf("%+v", c)
	}
	if fulls[0].X != 0 || deltas[0].X < width*8/10 || deltas[0].Y+deltas[0].Height != sizeHeight {
		t.Errorf("%+v", c.Bars)
	}
	if want := 600.0 / 540; c.Fastest < want*0.95 || c.Fastest > want*1.05 {
		t.Errorf("%v revisions a second, want %v", c.Fastest, want)
	}
	if !strings.Contains(c.Words, "1 full and 1 delta") || c.To != at || len(c.Ticks) != ticks {
		t.Errorf("%q, %v", c.Words, c.Ticks)
	}
	old := NewChart([]snapshot.Manifest{taken(snapshot.Full, 1, 100, 90*24*time.Hour)}, at)
	if old == nil || len(old.Bars) != 1 || old.Rate != "" {
		t.Errorf("of a quiet etcd: %+v", old)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		number(1234567): "1\u202f234\u202f567", number(-1234): "−1\u202f234", number(12): "12",
		bytes(1023): "1023\u00a0B", bytes(1536): "1.5\u00a0KiB", bytes(82 << 20): "82\u00a0MiB", bytes(3 << 40): "3.0\u00a0TiB",
		span(1500 * time.Millisecond): "1.5\u00a0s", span(59 * time.Second): "59\u00a0s", span(61 * time.Second): "1\u00a0min 1\u00a0s",
		span(90 * time.Minute): "1\u00a0h 30\u00a0min", span(50 * time.Hour): "2\u00a0d 2\u00a0h", span(-1): "0.0\u00a0s",
		rate(0): "0", rate(0.01): "less than 0.1", rate(2.25): "2.2", rate(12345): "12\u202f345",
		told("2026-11-21T03:00:00Z"): "2026-11-21 03:00:00 UTC", told("soon"): "soon",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
