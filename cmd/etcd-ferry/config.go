package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

const (
	configFlag = "config"
	envPrefix  = "ETCD_FERRY_"
)

// kubernetesVar matches the variables that Kubernetes gives to every pod for a
// Service whose name begins with etcd-ferry.
var kubernetesVar = regexp.MustCompile(
	`^ETCD_FERRY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// setting is a value for a flag and where it comes from.
type setting struct {
	from   string
	values []string
}

// configure gives the flags of c that are not on the command line their values
// from the environment, else from the config file. A name that is a flag of no
// command is a complaint, one of another command's flags is passed over: a file
// and an environment serve all commands. All complaints come joined.
func configure(c *cobra.Command, environ []string) error {
	known := knownFlags(c.Root())
	env, envErr := envSettings(environ, known)
	errs := []error{envErr}
	if s, ok := env[configFlag]; ok && !c.Flags().Changed(configFlag) {
		errs = append(errs, apply(c.Flags().Lookup(configFlag), s))
	}
	file, err := fileSettings(c.Flags().Lookup(configFlag).Value.String(), known)
	errs = append(errs, err)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		s, ok := env[f.Name]
		if !ok {
			s, ok = file[f.Name]
		}
		if ok && !f.Changed {
			errs = append(errs, apply(f, s))
		}
	})
	return errors.Join(errs...)
}

// knownFlags returns the names of all flags of all commands.
func knownFlags(c *cobra.Command) map[string]bool {
	known := map[string]bool{}
	add := func(f *pflag.Flag) { known[f.Name] = true }
	c.PersistentFlags().VisitAll(add)
	c.LocalNonPersistentFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		maps.Copy(known, knownFlags(sub))
	}
	delete(known, "help")
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
			settings[name] = setting{"environment variable " + key, []string{value}}
		case !kubernetesVar.MatchString(key):
			errs = append(errs, fmt.Errorf("environment variable %s: there is no flag of that name, unset it or correct it", key))
		}
	}
	return settings, errors.Join(errs...)
}

// envName returns the variable that sets a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fileSettings reads a config file; no path means none.
func fileSettings(path string, known map[string]bool) (map[string]setting, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	values, err := parseConfig(content)
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	settings := map[string]setting{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts, err := toTexts(values[name])
		switch {
		case !known[name] || name == configFlag:
			errs = append(errs, fmt.Errorf("config file %s: %s: there is no flag of that name", path, name))
		case err != nil:
			errs = append(errs, fmt.Errorf("config file %s: %s: %w", path, name, err))
		default:
			settings[name] = setting{"config file " + path, texts}
		}
	}
	return settings, errors.Join(errs...)
}

func parseConfig(content []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber() // a number stays as it was written
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, errors.New("want keys and values, the keys being names of flags")
	}
	return values, nil
}

// toTexts returns a YAML value as one would write it on the command line.
func toTexts(value any) ([]string, error) {
	switch v := value.(type) {
	case string, bool, json.Number:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		var texts []string
		for _, element := range v {
			text, err := toTexts(element)
			if _, nested := element.([]any); err != nil || nested {
				return nil, errors.New("want a list of plain values")
			}
			texts = append(texts, text...)
		}
		return texts, nil
	}
	return nil, errors.New("want a value or a list of values")
}

// apply sets f as the command line would.
func apply(f *pflag.Flag, s setting) error {
	set := func() error { return f.Value.Set(strings.Join(s.values, ",")) }
	if list, ok := f.Value.(pflag.SliceValue); ok && len(s.values) != 1 {
		set = func() error { return list.Replace(s.values) }
	} else if len(s.values) != 1 {
		set = func() error { return errors.New("want one value, not a list") }
	}
	if err := set(); err != nil {
		return fmt.Errorf("%s: invalid value for --%s: %w", s.from, f.Name, err)
	}
	f.Changed = true
	return nil
}
