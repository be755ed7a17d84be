package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// VerifyMode verifies what is stored again and again, and answers HTTP:
//
//	GET /livez    200 while this process answers
//	GET /metrics  Prometheus
//
// It is a process of its own, and not the daemon's: a trial restore takes memory, disk
// and time, which must not be in the way of a fence.
type VerifyMode struct {
	Period  time.Duration // from the end of a verification to the next one
	Retry   time.Duration // the same after one that could not look
	Log     *slog.Logger
	Metrics http.Handler // answers /metrics; nil: not found
	Results *VerifyMetrics

	verify func(context.Context) (restorer.Report, error)
}

const (
	// DefaultVerifyPeriod is for a VerifyMode of which nothing else is said.
	DefaultVerifyPeriod = 24 * time.Hour
	// DefaultVerifyRetry is how soon it tries again if it could not look, for example
	// because nothing is stored yet. It is never longer than the period.
	DefaultVerifyRetry = 5 * time.Minute
)

// NewVerifyMode returns what calls verify, such as Verifier.Verify.
func NewVerifyMode(verify func(context.Context) (restorer.Report, error)) *VerifyMode {
	return &VerifyMode{Period: DefaultVerifyPeriod, Retry: DefaultVerifyRetry, Log: slog.Default(), Results: NewVerifyMetrics(nil), verify: verify}
}

// Run verifies at once and then each Period or Retry, and serves on l, until ctx ends. What
// verification finds is told, and ends nothing.
func (v *VerifyMode) Run(ctx context.Context, l net.Listener) error {
	v.Log.Info("serving", "address", l.Addr().String())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(ctx, l, v.Handler(), v.Log) })
	g.Go(func() error {
		for ctx.Err() == nil {
			pause := v.Period
			if v.Once(ctx) == verdictError {
				pause = min(v.Period, v.Retry)
			}
			wait(ctx, pause)
		}
		return nil
	})
	return g.Wait()
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Once verifies and tells the result, unless ctx ends.
func (v *VerifyMode) Once(ctx context.Context) (result string) {
	began := time.Now()
	r, err := v.verify(ctx)
	result = verdict(r, err)
	if ctx.Err() != nil {
		return result
	}
	took := time.Since(began)
	v.Results.observe(r, err, took)
	switch {
	case err != nil:
		v.Log.Error("verification failed", "result", result, "error", err)
	case result == verdictInvalid:
		v.Log.Error("what is stored is not whole", "result", result, "problems", len(r.Findings), "first", r.Findings[0].Problem)
	default:
		v.Log.Info("what is stored can be restored", "result", result, "revision", reached(r), "seconds", took.Seconds())
	}
	return result
}

// Handler answers the paths above.
func (v *VerifyMode) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, ok) })
	if v.Metrics != nil {
		mux.Handle("GET /metrics", v.Metrics)
	}
	return http.MaxBytesHandler(mux, maxBody)
}
