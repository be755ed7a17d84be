package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const maxAnswer = 64 << 10 // bytes

// answer is what /gate says.
type answer struct {
	Allowed               bool    `json:"allowed"`
	LeaseRemainingSeconds float64 `json:"leaseRemainingSeconds"`
	Error                 struct {
		Message string `json:"message"`
	} `json:"error"`
}

// dial returns a client of the sidecar at an address and the address of /gate.
func dial(server string) (*http.Client, string, error) {
	// Straight to the sidecar: no proxy of the environment is asked.
	transport := &http.Transport{}
	u, err := url.Parse(server)
	switch {
	case err != nil: // as "localhost:8080" does
		return nil, "", errAddress(server)
	case u.Scheme == "http" && u.Host != "":
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		path := u.Path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		u = &url.URL{Scheme: "http", Host: "sidecar"}
	default:
		return nil, "", errAddress(server)
	}
	return &http.Client{Transport: transport}, u.JoinPath("gate").String(), nil
}

func errAddress(server string) error {
	return fmt.Errorf("the sidecar's address %q: want http://HOST:PORT or unix:///PATH", server)
}

// Wait returns when the sidecar has said yes, with the moment on CLOCK_BOOTTIME
// until which that is good. Its error is the end of ctx.
func (g *Gate) Wait(ctx context.Context) (time.Duration, error) {
	for {
		asked, err := boottime()
		if err != nil {
			return 0, err
		}
		lease, err := g.ask(ctx)
		if err == nil {
			return asked + lease, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("waiting for permission: %w", context.Cause(ctx))
		}
		if reason := err.Error(); reason != g.told {
			g.told = reason
			g.Log.Info("waiting for permission to run", "reason", reason)
		}
		pause(ctx, g.Pause)
	}
}

// ask asks once. It returns how long the permission lasts, counted from before
// the question.
func (g *Gate) ask(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	born, err := startTime()
	if err != nil {
		return 0, err
	}
	query := url.Values{"pid": {strconv.Itoa(os.Getpid())}, "start": {born}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	response, err := g.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return understand(response)
}

func understand(r *http.Response) (time.Duration, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, fmt.Errorf("%s answers %s, and not as a sidecar does", r.Request.URL.Host, r.Status)
	}
	switch {
	case r.StatusCode == http.StatusOK && a.Allowed:
		return time.Duration(a.LeaseRemainingSeconds * float64(time.Second)), nil
	case r.StatusCode == http.StatusLocked:
		return 0, errors.New(a.Error.Message)
	}
	return 0, fmt.Errorf("the sidecar answers %s: %s", r.Status, a.Error.Message)
}

// pause waits for about d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d)) //nolint:gosec // spreads questions, no secret
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// boottime is the time since boot, suspension included.
func boottime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// startTime returns when this process was started, as proc(5) has it in field 22
// of stat. The pid and it name a process for good.
func startTime() (string, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return "", err
	}
	const after = 22 - 3 // fields behind the name, which may hold anything
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= after {
		return "", errors.New("/proc/self/stat: too few fields")
	}
	return fields[after], nil
}
