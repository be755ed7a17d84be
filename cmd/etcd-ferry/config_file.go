package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// fileSettings reads a config file; no path means none.
func fileSettings(path string, known map[string]bool) (map[string]setting, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	pairs, err := parseConfig(content)
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	settings, lines := map[string]setting{}, map[string]int{}
	var errs []error
	for _, p := range pairs {
		where := fmt.Sprintf("config file %s, line %d", path, p.line)
		err := p.check(known)
		if first, twice := lines[p.name]; err == nil && twice {
			err = fmt.Errorf("it is on line %d already", first)
		}
		var s setting
		if err == nil {
			s, err = p.setting()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", where, p.name, err))
			continue
		}
		s.from = where
		settings[p.name], lines[p.name] = s, p.line
	}
	return settings, errors.Join(errs...)
}

// pair is a key of a config file and its value.
type pair struct {
	name  string
	line  int
	value *yaml.Node
}

// parseConfig returns the pairs in their order; one name may be there twice.
func parseConfig(content []byte) ([]pair, error) {
	d := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one YAML document, there is more behind it")
	}
	top := document.Content[0]
	switch {
	case top.ShortTag() == "!!null":
		return nil, nil
	case top.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("line %d: want keys and values, the keys being names of flags", top.Line)
	}
	var pairs []pair
	for i := 0; i < len(top.Content); i += 2 {
		key := top.Content[i]
		pairs = append(pairs, pair{key.Value, key.Line, top.Content[i+1]})
	}
	return pairs, nil
}

func (p pair) check(known map[string]bool) error {
	switch {
	case p.name == configFlag: // one file does not lead to the next
	case known[p.name]:
		return nil
	default:
		if meant := nearest(p.name, known); meant != "" {
			return fmt.Errorf("there is no flag of that name, did you mean %s?", meant)
		}
	}
	return errors.New("there is no flag of that name")
}

// setting returns the value as one would write it on the command line.
func (p pair) setting() (s setting, err error) {
	value := follow(p.value)
	switch value.Kind {
	case yaml.ScalarNode:
		text, err := plain(value)
		return setting{values: []string{text}}, err
	case yaml.SequenceNode:
		s.list = true
		for _, element := range value.Content {
			text, err := plain(follow(element))
			if err != nil {
				return s, err
			}
			s.values = append(s.values, text)
		}
		return s, nil
	}
	return s, errors.New("want a value or a list of values")
}

// follow returns what a name (*x) stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// plain returns a scalar as it was written, so that a number keeps its digits.
func plain(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("want a list of plain values")
	}
	switch n.ShortTag() {
	case "!!str", "!!bool", "!!int", "!!float", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return "", errors.New(`there is no value: write one, or "" for an empty one, or remove the key`)
	}
	return "", fmt.Errorf("want a plain value, without the tag %q", n.Tag)
}
