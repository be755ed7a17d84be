package etcdtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	healthTimeout  = time.Minute
	healthInterval = 10 * time.Millisecond
	// bindTimeout is how long a member tries to get its ports from whoever took
	// them.
	bindTimeout = 5 * time.Second
)

var errPortTaken = errors.New("a port is taken by another process")

// WaitHealthy returns when the member answers linearizable reads, so it knows a
// leader that is alive. Start and Restart have waited already; after the end of
// another member it keeps requests from being sent to a leader that is gone,
// which nobody would answer.
func (e *Etcd) WaitHealthy(t testing.TB) {
	t.Helper()
	if err := e.wait(t); err != nil {
		t.Fatal(err)
	}
}

// wait returns when the member answers linearizable reads.
func (e *Etcd) wait(t testing.TB) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: e.TLS.Config(t), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Second}
	began := time.Now()
	for !e.healthy(t, client) {
		select {
		case <-t.Context().Done():
			return t.Context().Err()
		case <-e.process.Ended():
			if !strings.Contains(e.logTail(5), "address already in use") {
				return fmt.Errorf("%s ended before it was healthy", e)
			}
			if time.Since(began) > bindTimeout {
				return fmt.Errorf("%s: %w", e, errPortTaken)
			}
			e.run(t)
		case <-time.After(healthInterval):
		}
		if time.Since(began) > healthTimeout {
			return fmt.Errorf("%s not healthy after %v", e, healthTimeout)
		}
	}
	return nil
}

// healthy ignores alarms: an etcd that ran full is still there to be tested.
func (e *Etcd) healthy(t testing.TB, client *http.Client) bool {
	t.Helper()
	url := e.endpoint + "/health?exclude=NOSPACE&exclude=CORRUPT"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
