package syncobject

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimingOfTheDefaults(t *testing.T) {
	timing := DefaultTiming()
	if got := timing.Bound(); got != 206*time.Second { // HANDOVER §4
		t.Error(got)
	}
	for w, right := range map[time.Duration]bool{
		DefaultForceAfter: true, 206 * time.Second: true, 205 * time.Second: false, 0: false, -time.Hour: false,
	} {
		if err := timing.Check(w); (err == nil) != right {
			t.Errorf("%s: %v", w, err)
		}
	}
	if err := timing.CheckPoll(DefaultPoll, DefaultRead); err != nil {
		t.Error(err)
	}
}

func TestTimingErrorHasTheNumbers(t *testing.T) {
	err := DefaultTiming().Check(3 * time.Minute)
	for _, want := range []string{
		"W(1−ρ) > (L + max(K, G))(1+ρ) + δ", "3m0s × (1 − 0.001) = 179.820 s",
		"(2m0s + max(15s, 1m15s)) × (1 + 0.001) + 10s = 205.195 s", "at least 3m26s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	err = DefaultTiming().CheckPoll(30*time.Second, 10*time.Second)
	if err == nil || !strings.Contains(err.Error(), "P + R < L/3 does not hold: 30s + 10s = 40s, but 2m0s / 3 = 40s") {
		t.Error(err)
	}
}

// The shorter times of a test, or of an impatient operator, count like any other.
func TestTimingIsStrict(t *testing.T) {
	exact := Timing{Lease: 3 * time.Second, Kill: 2 * time.Second, Watchdog: time.Second}
	if err := exact.Check(5 * time.Second); err == nil {
		t.Error("equal is not above")
	}
	if err := exact.Check(5*time.Second + time.Millisecond); err != nil {
		t.Error(err)
	}
	if got := exact.Bound(); got != 6*time.Second {
		t.Error(got)
	}
}

func TestTimingRefusesNonsense(t *testing.T) {
	for name, change := range map[string]func(*Timing){
		"no lease":          func(t *Timing) { t.Lease = 0 },
		"negative kill":     func(t *Timing) { t.Kill = -1 },
		"negative watchdog": func(t *Timing) { t.Watchdog = -1 },
		"negative slack":    func(t *Timing) { t.Slack = -1 },
		"negative error":    func(t *Timing) { t.ClockError = -0.1 },
		"clocks gone wild":  func(t *Timing) { t.ClockError = 1 },
		"no number":         func(t *Timing) { t.ClockError = math.NaN() },
	} {
		timing := DefaultTiming()
		change(&timing)
		if timing.Check(time.Hour) == nil || timing.Bound() != math.MaxInt64 {
			t.Error(name)
		}
	}
	for _, poll := range []time.Duration{0, -1} {
		if DefaultTiming().CheckPoll(poll, time.Second) == nil || DefaultTiming().CheckPoll(time.Second, poll) == nil {
			t.Error(poll)
		}
	}
}

// The bound is the first whole second that is accepted, and safe by arithmetic
// without floating point: ρ as a fraction of 10,000.
func TestTimingBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, 10_000_000)
		lease, kill, watchdog, slack := ms.Draw(t, "L"), ms.Draw(t, "K"), ms.Draw(t, "G"), ms.Draw(t, "slack")
		rho := rapid.Int64Range(0, 4000).Draw(t, "rho")
		timing := Timing{
			Lease: time.Duration(lease) * time.Millisecond, Kill: time.Duration(kill) * time.Millisecond,
			Watchdog: time.Duration(watchdog) * time.Millisecond, Slack: time.Duration(slack) * time.Millisecond,
			ClockError: float64(rho) / 10_000,
		}
		safe := func(w time.Duration) bool {
			return w.Milliseconds()*(10_000-rho) > (lease+max(kill, watchdog))*(10_000+rho)+slack*10_000
		}
		bound := timing.Bound()
		// Equal may be taken for above by a hair that is below floating point.
		if !safe(bound+time.Millisecond) || timing.Check(bound) != nil {
			t.Errorf("%s is not safe", bound)
		}
		if timing.Check(bound-time.Second) == nil || safe(bound-2*time.Second) {
			t.Errorf("%s is not the bound", bound)
		}
	})
}

func TestSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Seconds(time.Duration(rapid.Int64Range(0, 100*365*24*3600*1e6).Draw(t, "µs")) * time.Microsecond)
		data, err := json.Marshal(s)
		var back Seconds
		if err != nil || json.Unmarshal(data, &back) != nil || back != s {
			t.Errorf("%d becomes %s, %d: %v", s, data, back, err)
		}
	})
	for _, text := range []string{"-1", "1e30", `"5"`, "[]"} {
		if s := Seconds(1); json.Unmarshal([]byte(text), &s) == nil {
			t.Errorf("%s is taken for %d", text, s)
		}
	}
	if data, _ := json.Marshal(Seconds(200 * time.Millisecond)); string(data) != "0.2" {
		t.Errorf("%s", data)
	}
}
