package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

func TestExitCode(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing wrong":        {nil, 0},
		"any error":            {errors.New("no"), 1},
		"interrupted":          {context.Canceled, 1},
		"no such store":        {store.ErrNoContainer, 1},
		"usage":                {usageError{errors.New("no flag")}, 2},
		"usage, of a snapshot": {usageError{snapshot.ErrNothing}, 2},
		"nothing stored":       {fmt.Errorf("plan: %w", snapshot.ErrNothing), 7},
		"corrupt":              {errors.Join(errors.New("and"), fmt.Errorf("x: %w", archive.ErrCorrupt)), 8},
		"gap":                  {snapshot.Gap{}, 8},
		"two histories":        {snapshot.ErrLineage, 8},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(test.err); got != test.want {
				t.Errorf("exit code of %v is %d, want %d", test.err, got, test.want)
			}
		})
	}
}

func TestExitHelpTellsEveryCode(t *testing.T) {
	help := exitHelp()
	for code := range 9 {
		if !strings.Contains(help, fmt.Sprintf("\n  %d  ", code)) {
			t.Errorf("code %d is missing in %s", code, help)
		}
	}
}
