package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// ListenSocket listens on a unix socket that only its owner may open. One that
// nobody listens on any more is replaced.
func ListenSocket(ctx context.Context, path string) (net.Listener, error) {
	const ownerOnly = 0o600
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		return nil, errors.Join(fmt.Errorf("somebody listens on %s already", path), c.Close())
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is no socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, ownerOnly); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
