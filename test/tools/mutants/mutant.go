package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is a mistake in one file, and the tests of one package that find it.
type mutant struct {
	name   string
	danger string // what it leads to, with the rule of HANDOVER that it breaks
	file   string // relative to the module
	edits  []edit
	pkg    string   // relative to the module, with ./
	tests  []string // all are run, one has to fail
}

// edit replaces a text that occurs once.
type edit struct{ before, after string }

// all are all mutants.
func all() []mutant {
	var ms []mutant
	for _, some := range [][]mutant{ofLease(), ofFence(), ofFinal(), ofObject(), ofOwner(), ofDestination(), ofStored()} {
		ms = append(ms, some...)
	}
	return ms
}

// apply returns the file of that content with the mistake in it.
func (m mutant) apply(content string) (string, error) {
	for _, e := range m.edits {
		if n := strings.Count(content, e.before); n != 1 {
			return "", fmt.Errorf("%s has %d times, not once, what is to be replaced: %q", m.file, n, e.before)
		}
		content = strings.Replace(content, e.before, e.after, 1)
	}
	return content, nil
}

// try runs the tests against the mutant and returns those that have failed. Without
// one, and if it does not compile, it is an error.
func (m mutant) try(ctx context.Context, root string) ([]string, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return nil, err
	}
	// Vet may know a mutant for what it is, but it is the tests that are tried.
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-count=1", "-timeout=3m",
		"-overlay="+overlay, "-run=^("+strings.Join(m.tests, "|")+")$", m.pkg)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "RAPID_NOFAILFILE=true") // property tests would leave files in the tree
	said, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return outcome(said, err != nil)
}

// overlay writes the mutant into dir, and beside it what go's -overlay wants.
func (m mutant) overlay(root, dir string) (string, error) {
	original := filepath.Join(root, m.file)
	content, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	changed, err := m.apply(string(content))
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, []byte(changed), 0o600), os.WriteFile(overlay, data, 0o600))
}

// moduleRoot returns the folder of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
