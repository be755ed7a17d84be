package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	configFlag      = "config"
	printConfigFlag = "print-config"
	envPrefix       = "ETCD_FERRY_"
)

// kubernetesVar matches the variables that Kubernetes gives to every pod for a
// Service whose name begins with etcd-ferry.
var kubernetesVar = regexp.MustCompile(
	`^ETCD_FERRY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// setting is a value for a flag and where it comes from.
type setting struct {
	from   string
	values []string
	list   bool // values were written as a list
}

// origins say where the values of flags come from. Those that it does not name have
// their defaults.
type origins map[string]string

// configure gives the flags of c that are not on the command line their values
// from the environment, else from the config file. A name that is a flag of no
// command is a complaint, one of another command's flags is passed over: a file
// and an environment serve all commands. All complaints come joined.
func configure(c *cobra.Command, environ []string) (origins, error) {
	from := origins{}
	c.Flags().Visit(func(f *pflag.Flag) { from[f.Name] = "flag" })
	known := knownFlags(c.Root())
	env, envErr := envSettings(environ, known)
	errs := []error{envErr}
	use := func(f *pflag.Flag, s setting) {
		if from[f.Name] != "" {
			return
		}
		err := s.apply(f)
		if err == nil {
			from[f.Name] = s.from
		}
		errs = append(errs, err)
	}
	path := c.Flags().Lookup(configFlag)
	if s, ok := env[configFlag]; ok {
		use(path, s)
	}
	file, err := fileSettings(path.Value.String(), known)
	errs = append(errs, err)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		s, ok := env[f.Name]
		if !ok {
			s, ok = file[f.Name]
		}
		if ok {
			use(f, s)
		}
	})
	return from, errors.Join(errs...)
}

// knownFlags returns the names of all flags of all commands that can be set
// elsewhere than on the command line.
func knownFlags(c *cobra.Command) map[string]bool {
	known := map[string]bool{}
	add := func(f *pflag.Flag) { known[f.Name] = true }
	c.PersistentFlags().VisitAll(add)
	c.LocalNonPersistentFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		maps.Copy(known, knownFlags(sub))
	}
	delete(known, "help")
	delete(known, printConfigFlag)
	return known
}

func envSettings(environ []string, known map[string]bool) (map[string]setting, error) {
	settings := map[string]setting{}
	var errs []error
	for _, variable := range environ {
		key, value, _ := strings.Cut(variable, "=")
		stem, ours := strings.CutPrefix(key, envPrefix)
		name := strings.ReplaceAll(strings.ToLower(stem), "_", "-")
		switch {
		case !ours:
		case known[name] && key == envName(name):
			settings[name] = setting{from: "environment variable " + key, values: []string{value}}
		case !kubernetesVar.MatchString(key):
			advice := "unset it or correct it"
			if meant := nearest(name, known); meant != "" {
				advice = "did you mean " + envName(meant) + "?"
			}
			errs = append(errs, fmt.Errorf("environment variable %s: there is no flag of that name, %s", key, advice))
		}
	}
	return settings, errors.Join(errs...)
}

// envName returns the variable that sets a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// nearest returns the known name that somebody may have meant who wrote another,
// "" if there is none. What is alike is for cobra to say, as it does for commands.
func nearest(name string, known map[string]bool) string {
	const longest, mostTypos = 64, 4
	if len(name) > longest {
		return ""
	}
	var names cobra.Command
	for k := range known {
		names.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	for typos := 1; typos <= min(len(name)/2, mostTypos); typos++ {
		names.SuggestionsMinimumDistance = typos
		if alike := names.SuggestionsFor(name); len(alike) > 0 {
			slices.SortFunc(alike, func(a, b string) int {
				if len(a) != len(b) {
					return len(a) - len(b)
				}
				return strings.Compare(a, b)
			})
			return alike[0]
		}
	}
	return ""
}

// apply sets f as the command line would.
func (s setting) apply(f *pflag.Flag) error {
	var err error
	switch list, isList := f.Value.(pflag.SliceValue); {
	case isList && s.list:
		err = list.Replace(s.values)
	case len(s.values) != 1:
		err = errors.New("want one value, not a list")
	default:
		if err = f.Value.Set(s.values[0]); err != nil {
			_ = f.Value.Set(f.DefValue) // some become zero
		}
	}
	if err != nil {
		return fmt.Errorf("%s: invalid value for --%s: %w", s.from, f.Name, err)
	}
	f.Changed = true
	return nil
}
