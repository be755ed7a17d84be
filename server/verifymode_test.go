package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// Whatever a verification finds is told as one of three results; what was proven last
// stays told.
func TestVerifyModeTellsResults(t *testing.T) {
	well := restorer.Report{Windows: []snapshot.Window{{First: 1, Last: 7}}}
	tried := restorer.Report{Windows: well.Windows, Trial: &restorer.Trial{Result: restorer.Result{Revision: 9}}}
	bad := restorer.Report{Findings: []restorer.Finding{{Name: "full", Problem: "flipped"}}}
	var next restorer.Report
	var nextErr error
	v := NewVerifyMode(func(context.Context) (restorer.Report, error) { return next, nextErr })
	reg := prometheus.NewRegistry()
	v.Results, v.Metrics = NewVerifyMetrics(reg), MetricsHandler(reg)
	scrape := func() string {
		answer := httptest.NewRecorder()
		v.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return answer.Body.String()
	}
	if text := scrape(); !strings.Contains(text, `etcd_ferry_verifications_total{result="invalid"} 0`) || !strings.Contains(text, "etcd_ferry_verified_timestamp_seconds 0\n") {
		t.Errorf("before the first one:\n%s", text)
	}
	for i, step := range []struct {
		report   restorer.Report
		err      error
		result   string
		revision int
	}{
		{well, nil, "ok", 7},
		{tried, nil, "ok", 9},
		{bad, nil, "invalid", 9},
		{bad, errors.New("the store does not answer"), "error", 9},
		{restorer.Report{}, fmt.Errorf("%w: empty", snapshot.ErrNothing), "error", 9},
		{well, nil, "ok", 7},
	} {
		next, nextErr = step.report, step.err
		v.Once(t.Context())
		text := scrape()
		for _, r := range []string{"ok", "invalid", "error"} {
			if line := fmt.Sprintf("etcd_ferry_verification_result{result=%q} %v\n", r, truth(r == step.result)); !strings.Contains(text, line) {
				t.Errorf("step %d: %q is missing in:\n%s", i, line, text)
			}
		}
		if line := fmt.Sprintf("etcd_ferry_verified_revision %d\n", step.revision); !strings.Contains(text, line) {
			t.Errorf("step %d: %q is missing in:\n%s", i, line, text)
		}
	}
}

// It goes on after a failure, and ends with its context. What is cut off then is no
// result.
func TestVerifyModeGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	times := 0
	v := NewVerifyMode(func(context.Context) (restorer.Report, error) {
		times++
		if times == 3 {
			cancel()
		}
		return restorer.Report{}, errors.New("not now")
	})
	reg := prometheus.NewRegistry()
	v.Period, v.Retry, v.Results = time.Hour, time.Millisecond, NewVerifyMetrics(reg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Run(ctx, l); err != nil {
		t.Error(err)
	}
	answer := httptest.NewRecorder()
	MetricsHandler(reg).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(answer.Body.String(), `etcd_ferry_verifications_total{result="error"} 2`) {
		t.Errorf("three times, the last one cut off:\n%s", answer.Body)
	}
}
