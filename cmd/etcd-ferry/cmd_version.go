package main

import (
	"context"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

// buildVersion returns the version of this program, as good as is known.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

type versionCommand struct{ output output }

func newVersionCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
	}, &versionCommand{})
}

func (c *versionCommand) flags(fs *pflag.FlagSet) { c.output.flags(fs) }

func (c *versionCommand) check() error { return c.output.check() }

func (c *versionCommand) run(_ context.Context, e *env) error {
	return c.output.print(e.out, versionResult{
		Version: buildVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

type versionResult struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v versionResult) table(w io.Writer) { row(w, "etcd-ferry", v.Version, v.Go, v.Platform) }
