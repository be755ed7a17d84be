package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is one run of the program.
type app struct {
	system
	logLevel, logFormat, config string
	printConfig                 bool

	began bool // an action was begun: the command line was right
}

// action is what a command does. check and run are called when the flags have
// their values, wherever these came from.
type action interface {
	flags(*pflag.FlagSet)
	// check returns all complaints about the flags, joined.
	check() error
	run(context.Context, *env) error
}

// wordy is an action that takes arguments beside flags.
type wordy interface {
	words([]string)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "etcd-ferry",
		Short: "Backs up etcd as it runs, and brings it back byte for byte",
		Long: `etcd-ferry runs beside etcd, ships its history to object storage, and brings it
back byte for byte. Without an etcd at hand, begin with: etcd-ferry demo

Every flag can also be set by an environment variable, --etcd-endpoints by
ETCD_FERRY_ETCD_ENDPOINTS, or in a YAML file named with --config, whose keys are
the flags' names. A flag wins over a variable, and a variable over the file; what
came of them is shown by --print-config.
Results go to standard output, logs and progress to standard error.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // a template would link what calls methods by name
		help(c, args)
		fmt.Fprint(c.OutOrStdout(), exitHelp())
	})
	fs := root.PersistentFlags()
	fs.StringVar(&a.config, configFlag, "", "YAML `file` with values for flags; its keys are the flags' names")
	fs.BoolVar(&a.printConfig, printConfigFlag, false, "print all values as a config file, with where each comes from, and do nothing")
	fs.StringVar(&a.logLevel, "log-level", "info", "least `level` to log: debug, info, warn or error")
	fs.StringVar(&a.logFormat, "log-format", "text", "`format` of logs: text or json")
	root.AddCommand(
		newServerCommand(a), newSnapshotCommand(a), newRestoreCommand(a),
		newListCommand(a), newVerifyCommand(a), newPruneCommand(a), newCompactCommand(a), newCopyCommand(a),
		newGateCommand(a), newCopyopCommand(a), newDoctorCommand(a), newVersionCommand(a), newDemoCommand(a), newDemoEtcdCommand(a),
	)
	return root
}

// command completes c, which does act.
func (a *app) command(c *cobra.Command, act action) *cobra.Command {
	c.Args = cobra.NoArgs
	if w, ok := act.(wordy); ok {
		c.Args = func(_ *cobra.Command, args []string) error {
			w.words(args)
			return nil
		}
	}
	act.flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		from, configErr := configure(c, a.environ)
		e, err := a.env()
		err = errors.Join(configErr, err, act.check())
		a.began = err == nil
		switch {
		case a.printConfig:
			return errors.Join(err, printConfig(a.stdout, c, from))
		case err != nil:
			return err
		}
		return act.run(c.Context(), e)
	}
	return c
}

// group completes c, which only holds other commands.
func (a *app) group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.Args = cobra.ArbitraryArgs
	c.FParseErrWhitelist.UnknownFlags = true // the command's name is what is wrong
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		var names []string
		for _, sub := range commands {
			names = append(names, sub.Name())
		}
		if len(args) == 0 {
			return fmt.Errorf("%s needs one of the commands %s", c.CommandPath(), strings.Join(names, ", "))
		}
		if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
			names = similar
		}
		return fmt.Errorf("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(names, " or "))
	}
	return c
}

// env is what an action needs to speak to the outside.
type env struct {
	*console
	log *slog.Logger
}

// env makes the logger that the flags ask for.
func (a *app) env() (*env, error) {
	c := &console{out: a.stdout, err: a.stderr}
	var level slog.Level
	var errs []error
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: want debug, info, warn or error", a.logLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	e := &env{console: c}
	switch a.logFormat {
	case "text":
		e.log = slog.New(slog.NewTextHandler(logWriter{c}, options))
	case "json":
		e.log = slog.New(slog.NewJSONHandler(logWriter{c}, options))
	default:
		errs = append(errs, fmt.Errorf("--log-format %q: want text or json", a.logFormat))
	}
	return e, errors.Join(errs...)
}
