package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const hidden = "***"

// printConfig writes the values of c's flags as a config file, each with where it
// comes from. What could be a secret is hidden: the rest is as --config takes it.
func printConfig(w io.Writer, c *cobra.Command, from origins) error {
	top := &yaml.Node{Kind: yaml.MappingNode}
	known := knownFlags(c.Root())
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] || f.Name == configFlag {
			return
		}
		value := valueNode(f)
		value.LineComment = cmp.Or(from[f.Name], "default")
		top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, value)
	})
	fmt.Fprintf(w, "# %s\n", c.CommandPath())
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return e.Close()
}

func valueNode(f *pflag.Flag) *yaml.Node {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, v := range list.GetSlice() {
			n.Content = append(n.Content, textNode(hide(v)))
		}
		return n
	}
	switch f.Value.Type() {
	case "bool", "int", "int64", "float64":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: f.Value.String()}
	}
	return textNode(hide(f.Value.String()))
}

// textNode stays a string whatever it looks like, and on one line.
func textNode(s string) *yaml.Node {
	var n yaml.Node
	n.SetString(s)
	if strings.ContainsAny(s, "\r\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return &n
}

// hide replaces what might be secret in a value. No flag takes a secret, but
// somebody may have put one into a URL: before its host, or behind its question
// mark.
func hide(value string) string {
	if !strings.Contains(value, "://") {
		if before, _, found := strings.Cut(value, "@"); found && strings.Contains(before, ":") {
			return hidden
		}
		return value
	}
	u, err := url.Parse(value)
	switch {
	case err != nil && strings.ContainsAny(value, "@?"), err == nil && u.Fragment != "":
		return hidden
	case err != nil || u.User == nil && u.RawQuery == "":
		return value
	}
	base, query, asked := strings.Cut(value, "?")
	if u.User != nil {
		before, _, _ := strings.Cut(base, "://")
		base = before + "://" + hidden + "@" + u.Host + u.EscapedPath()
	}
	if !asked {
		return base
	}
	return base + "?" + hideQuery(query, schemes[u.Scheme].options)
}

// hideQuery leaves the values of known options, which are no secrets.
func hideQuery(query string, options []string) string {
	pairs := strings.Split(query, "&")
	for i, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		text, err := url.QueryUnescape(value)
		if err != nil || !slices.Contains(options, name) || hide(text) != text {
			pairs[i] = name + "=" + hidden
		}
	}
	return strings.Join(pairs, "&")
}
