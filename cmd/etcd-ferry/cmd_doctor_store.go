package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// examineStore looks whether a store is there, and keeps its promises.
func (c *doctorCommand) examineStore(ctx context.Context, flags *storeFlags) []finding {
	subject := strings.ReplaceAll(flags.flag(), "-", " ") + ": "
	s, err := flags.wrapped(newMetrics())
	if err != nil {
		return []finding{failed(subject+"reach", err)}
	}
	infos, err := s.List(ctx, "snapshots/")
	reached := judged(subject+"reach", fmt.Sprintf("%s lists %s objects of snapshots", s, count(int64(len(infos)))), err)
	switch {
	case err != nil:
		return []finding{reached, unchecked(subject+"promises", "comes when the store can be listed")}
	case c.readOnly:
		return []finding{reached, unchecked(subject+"promises", "leave out --read-only")}
	}
	return append([]finding{reached}, probed(ctx, subject, s)...)
}

// probed returns a finding for each step of a probe.
func probed(ctx context.Context, subject string, s store.Store) []finding {
	report, err := store.Probe(ctx, s)
	var findings []finding
	for _, step := range store.ProbeSteps() {
		if !slices.Contains(report.Passed, step.Name) {
			break
		}
		findings = append(findings, fine(subject+step.Name, step.Want))
	}
	if ended, ok := errors.AsType[*store.ProbeError](err); ok {
		detail := fmt.Errorf("want %s, but %s: %s", ended.Want, ended.Got, ended.Advice)
		findings = append(findings, failed(subject+ended.Step, detail))
	}
	if report.Left != nil {
		return append(findings, warning(subject+"remove",
			fmt.Sprintf("nothing can be pruned, and %s stays: allow removing, unless that is meant: %v", report.Object, report.Left)))
	}
	if err == nil {
		findings = append(findings, fine(subject+"remove", "the probe has left nothing"))
	}
	return findings
}

func (c *doctorCommand) examineRecipients(context.Context) []finding {
	keys, err := archive.RecipientsFile(c.recipients.file)()
	return []finding{judged("recipients", fmt.Sprintf("%d public keys", len(keys)), err)}
}

func (c *doctorCommand) examineIdentities(context.Context) []finding {
	keys, err := archive.IdentitiesFile(c.identities.file)()
	return []finding{judged("identities", fmt.Sprintf("%d secret keys", len(keys)), err)}
}

// oneLine keeps a table's rows.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
