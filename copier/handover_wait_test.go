package copier_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// Nobody serves between the decision of the source and when the destination sees it:
// that adds about a tenth of a poll period at most, or of the wait so far.
func TestDecisionIsSeenSoon(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second, 13 * time.Second, 34 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			a.initiate()
			h := handOver("b", a.Store, b.Store)
			r := start(t.Context(), h)
			<-time.After(after)
			a.answer(160)
			decided := time.Now()
			<-r.done
			if took, most := time.Since(decided), max(after, h.Poll)/8; r.err != nil || took > most {
				t.Errorf("decided after %v: it was done %v later, want %v, %v", after, took, most, r.err)
			}
		})
	}
}
