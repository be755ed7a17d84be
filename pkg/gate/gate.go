package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"
)

const (
	// DefaultPause is how long the gate waits between two questions. A sidecar holds
	// its no back for up to 30 s, but says yes at once.
	DefaultPause = time.Second
	// DefaultTimeout bounds one question. The sidecar answers within 30 s.
	DefaultTimeout = 40 * time.Second
	// DefaultGrace is how long what the command left behind may take to end.
	DefaultGrace = 10 * time.Second
)

// Gate runs a command inside the lease of a sidecar.
type Gate struct {
	Pause   time.Duration
	Timeout time.Duration
	Grace   time.Duration
	Log     *slog.Logger

	client *http.Client
	url    string
	told   string // the last reason that was logged
}

// New returns a Gate with the default settings. server is the sidecar's address:
// http://host:port, or unix:///path of its socket.
func New(server string) (*Gate, error) {
	client, url, err := dial(server)
	if err != nil {
		return nil, err
	}
	return &Gate{
		Pause:   DefaultPause,
		Timeout: DefaultTimeout,
		Grace:   DefaultGrace,
		Log:     slog.Default(),
		client:  client,
		url:     url,
	}, nil
}

// Run waits for permission, runs the command, passes signals on to it, and
// returns its exit status, 128 + n if signal n ended it. It gives up waiting when
// ctx ends; a command that runs is ended by signals only.
//
// Run reaps every child of the process. Nothing else in it may start any.
func (g *Gate) Run(ctx context.Context, signals <-chan os.Signal, command []string) (int, error) {
	path, err := lookPath(command)
	if err != nil {
		return 0, err
	}
	for {
		until, err := g.Wait(ctx)
		if err != nil {
			return 0, err
		}
		c, err := start(path, command, until)
		if errors.Is(err, errLate) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("start %s: %w", path, err)
		}
		g.Log.Info("started", "command", path, "pid", c.pid)
		return c.wait(signals, g.Grace)
	}
}
