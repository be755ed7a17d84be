package server

import (
	"context"
	_ "embed"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/server/web"
)

//go:embed openapi/verify.yaml
var verifyOpenAPI []byte

// VerifyMode verifies what is stored again and again, and answers HTTP:
//
//	GET /              the status page
//	GET /openapi.yaml  all of this, for machines
//	GET /livez         200 while this process answers
//	GET /metrics       Prometheus
//
// It is a process of its own, and not the daemon's: a trial restore takes memory, disk
// and time, which must not be in the way of a fence.
type VerifyMode struct {
	Period  time.Duration // from the end of a verification to the next one
	Retry   time.Duration // the same after one that could not look
	Log     *slog.Logger
	Metrics http.Handler // answers /metrics; nil: not found
	Results *VerifyMetrics
	Web     *web.Metrics
	Name    string // of the store, for people
	Version string // of this program, for people

	drawn  *page.Page
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
	return &VerifyMode{
		Period: DefaultVerifyPeriod, Retry: DefaultVerifyRetry, Log: slog.Default(), Results: NewVerifyMetrics(nil),
		Web: web.NewMetrics(nil), drawn: page.New(), verify: verify,
	}
}

// Run verifies at once and then each Period or Retry, and serves on l, until ctx ends. What
// verification finds is told, and ends nothing.
func (v *VerifyMode) Run(ctx context.Context, l net.Listener) error {
	v.Log.Info("serving", "address", l.Addr().String())
	g, ctx := errgroup.WithContext(ctx)
	answers := web.NewServer(v.Handler())
	answers.Log, answers.Metrics = v.Log, v.Web
	g.Go(func() error { return answers.Serve(ctx, l) })
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
func (v *VerifyMode) Handler() http.Handler { return http.MaxBytesHandler(v.routes().mux(), maxBody) }

func (v *VerifyMode) routes() routes {
	r := routes{
		"GET /{$}":          http.HandlerFunc(v.page),
		"GET /openapi.yaml": described(verifyOpenAPI),
		"GET /livez":        http.HandlerFunc(alive),
	}
	if v.Metrics != nil {
		r["GET /metrics"] = v.Metrics
	}
	return r
}

func (v *VerifyMode) page(w http.ResponseWriter, _ *http.Request) {
	if err := v.drawn.Answer(w, v.state()); err != nil {
		v.Log.Error("the status page cannot be shown", "error", err)
		fail(w, http.StatusInternalServerError, "page", err)
	}
}

func (v *VerifyMode) state() page.State {
	s := page.State{
		Now: time.Now(), Version: v.Version, Name: v.Name, Kind: "verify", Verification: verification(valuesOf(v.Metrics)),
		Links: []page.Link{{Path: "/metrics", Text: "Metrics"}, {Path: "/openapi.yaml", Text: "HTTP interface"}},
	}
	switch s.Verification.Result {
	case verdictOK:
		s.Verdict = page.Verdict{Level: page.Good, Title: "What is stored can be restored", Text: "The last verification has found nothing wrong."}
	case verdictInvalid:
		s.Verdict = page.Verdict{Level: page.Bad, Title: "What is stored is not whole", Text: "The log names what is damaged or missing. Take a full snapshot at once: from it on everything can be restored again."}
	case verdictError:
		s.Verdict = page.Verdict{Level: page.Bad, Title: "Verification could not look", Text: "The log says why: the store, etcd or the temporary directory was not there or too small. It is tried again."}
	default:
		s.Verdict = page.Verdict{Level: page.Wait, Title: "The first verification is under way", Text: "It reads what is stored, and may restore it for a trial."}
	}
	return s
}
