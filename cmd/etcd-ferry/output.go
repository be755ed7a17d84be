package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// result is what a command found out or did. Its JSON is for machines.
type result interface {
	// table writes it for people; tabs separate columns.
	table(w io.Writer)
}

// output is how a result is printed.
type output struct{ format string }

func (o *output) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.format, "output", "o", "table", "`format` of the result: table, json or yaml")
}

func (o *output) check() error {
	switch o.format {
	case "table", "json", "yaml":
		return nil
	}
	return fmt.Errorf("--output %q: want table, json or yaml", o.format)
}

// print writes r to w.
func (o *output) print(w io.Writer, r result) error {
	if o.format == "table" {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		r.table(t)
		return t.Flush()
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil && o.format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if o.format == "json" {
		text = append(text, '\n')
	}
	_, err = w.Write(text)
	return err
}

// row writes the columns of one line of a table.
func row(w io.Writer, columns ...any) {
	for i, c := range columns {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, c)
	}
	fmt.Fprintln(w)
}
