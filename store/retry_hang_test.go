package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// A line that swallows everything costs an attempt, not all the time there is.
func TestRetryWhatHangs(t *testing.T) {
	hang := storetest.Fault{Delay: 24 * time.Hour}
	script := storetest.Script{
		storetest.List: {hang, pass}, storetest.Read: {hang, pass, pass, pass}, storetest.Remove: {hang, pass},
		// The answer of the second is lost, so that its outcome has to be looked up.
		storetest.Swap: {hang, lose, pass},
	}
	virtually(t, script, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, _ store.Store) {
		r.Timeout, r.ListTimeout = time.Minute, time.Hour
		var version store.Version
		for _, step := range []struct {
			call func() error
			want time.Duration
		}{
			{func() error { _, err := r.List(t.Context(), ""); return err }, time.Hour + time.Second},
			// The look after the first attempt hangs too.
			{func() (err error) { version, err = r.Swap(t.Context(), "a", "", []byte("x")); return err }, 2*time.Minute + 6*time.Second},
			{func() error {
				data, got, err := r.Read(t.Context(), "a")
				if string(data) != "x" || got != version {
					t.Errorf("read %q at %s, want the bytes of the swap at %s", data, got, version)
				}
				return err
			}, 0},
			{func() error { return r.Remove(t.Context(), "a") }, time.Minute + time.Second},
		} {
			began := time.Now()
			if err := step.call(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != step.want {
				t.Errorf("it took %v, want %v", took, step.want)
			}
		}
	})
}

// Who has no time left is told so, and who has some that nobody answers.
func TestRetryGivesUpOnWhatHangs(t *testing.T) {
	hang := storetest.Fault{Delay: 24 * time.Hour}
	script := storetest.Script{storetest.Read: {hang, hang, hang, hang, hang}}
	virtually(t, script, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, _ store.Store) {
		if _, _, err := r.Read(t.Context(), "a"); err == nil || store.IsPermanent(err) || !strings.Contains(err.Error(), "no answer within 30s") {
			t.Errorf("error is %v", err)
		}
		if n := f.Calls(storetest.Read); n != r.Attempts {
			t.Errorf("%d attempts", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := r.Read(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("error is %v after %v", err, time.Since(began))
		}
	})
}
