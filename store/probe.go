package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// ErrUnfit says that a store answered otherwise than the port promises. Nothing
// that needs exactly one winner may rely on it, however often it is asked.
var ErrUnfit = errors.New("this store cannot be relied on for a hand-over")

// probeCleanup bounds the removal of the probe's object.
const probeCleanup = 10 * time.Second

// ProbeReport is what a probe found out.
type ProbeReport struct {
	Object string   // the name that it used
	Passed []string // the steps that went well, in order
	// Left says why Object could not be removed, nil if it was. A store in which
	// nothing can be removed is fit for a hand-over, but not for pruning.
	Left error
}

// ProbeError is the step at which a probe ended. It is ErrUnfit if the store's
// answer proves it unfit; else it was not reached, or refused, and nothing is
// known of it.
type ProbeError struct {
	Store  string // in words for people, without secrets
	Step   string // one of ProbeSteps
	Want   string // what the port promises
	Got    string // what happened
	Advice string // what to do
	Unfit  bool
	Err    error // of the store; nil if it accepted what it has to refuse
}

func (e *ProbeError) Error() string {
	return fmt.Sprintf("probe of %s, step %q: want %s, but %s: %s", e.Store, e.Step, e.Want, e.Got, e.Advice)
}

// Unwrap returns the classes of the error.
func (e *ProbeError) Unwrap() []error {
	var classes []error
	if e.Unfit {
		classes = append(classes, ErrUnfit)
	}
	if e.Err != nil {
		classes = append(classes, e.Err)
	}
	return classes
}

// ProbeStep is one promise that a probe looks at.
type ProbeStep struct{ Name, Want string }

// ProbeSteps returns the steps of a probe in order.
func ProbeSteps() []ProbeStep {
	var all []ProbeStep
	for _, s := range (&probe{}).steps() {
		all = append(all, s.ProbeStep)
	}
	return all
}

// Probe tries on an object of its own whether s keeps what the port promises of
// conditional writes and of reading: see HANDOVER.md §9. It ends at the first
// step that fails, with a *ProbeError. No two of its writes have equal bytes,
// because in some stores those would have equal versions.
func Probe(ctx context.Context, s Store) (ProbeReport, error) {
	id := strings.ToLower(rand.Text())
	p := &probe{store: s, id: id, name: "probe-" + id}
	report := ProbeReport{Object: p.name}
	for _, step := range p.steps() {
		if err := step.run(ctx); err != nil {
			report.Left = p.clean(ctx)
			return report, p.failed(step, err)
		}
		report.Passed = append(report.Passed, step.Name)
	}
	report.Left = p.clean(ctx)
	return report, nil
}

type probe struct {
	store    Store
	id, name string
	began    bool    // something may have been written
	newest   []byte  // what the object holds
	version  Version // of it, as its last write told
	stale    Version // the one before
}

// probeStep is one promise and the trial of it.
type probeStep struct {
	ProbeStep
	advice string // if it is not kept
	run    func(context.Context) error
	// rewrites says that the store has accepted a write of this name before:
	// one that it does not permit now is about overwriting.
	rewrites bool
}

const (
	adviceConditions = "this server ignores the conditions of writes: use one that knows If-None-Match and If-Match"
	adviceFresh      = "a reader has to see every write that has ended: go to the store itself, without a cache or a replica in between"
	adviceLocked     = "this container is locked (WORM, retention, an immutability policy), or the credentials may not overwrite: " +
		"use one without retention for all objects, and allow overwriting"
	adviceRepeat = "nothing is known of the store yet: mend this and try again"
)

func (p *probe) steps() []probeStep {
	return []probeStep{
		{ProbeStep: ProbeStep{"place", "locks and links that every machine sees"}, advice: "else two could win one race", run: p.place},
		{ProbeStep: ProbeStep{"create", "a new object"}, advice: adviceConditions, run: p.create},
		{ProbeStep: ProbeStep{"absence", "proof that an unused name is absent"}, advice: adviceFresh, run: p.absence},
		{ProbeStep: ProbeStep{"read", "what was just created"}, advice: adviceFresh, run: p.readNewest},
		{ProbeStep: ProbeStep{"create again", "a refusal, as the name is taken"}, advice: adviceConditions, run: p.createAgain, rewrites: true},
		{ProbeStep: ProbeStep{"swap", "an overwrite of the version just read"}, advice: adviceLocked, run: p.swap, rewrites: true},
		{ProbeStep: ProbeStep{"read newest", "what was just swapped in"}, advice: adviceFresh, run: p.readNewest},
		{ProbeStep: ProbeStep{"list", "the object at its newest version"}, advice: adviceFresh, run: p.list},
		{ProbeStep: ProbeStep{"stale swap", "a refusal, as the version is an old one"}, advice: adviceConditions, run: p.swapStale, rewrites: true},
		{ProbeStep: ProbeStep{"first swap", "a refusal, as there is an object"}, advice: adviceConditions, run: p.swapFirst, rewrites: true},
		{ProbeStep: ProbeStep{"unchanged", "refused writes to have done nothing"}, advice: adviceConditions, run: p.readNewest},
	}
}

// surprise is what happened instead of what was wanted.
type surprise string

func (s surprise) Error() string { return string(s) }

// failed tells an answer that is not the promised one from no answer.
func (p *probe) failed(step probeStep, err error) *ProbeError {
	e := &ProbeError{Store: p.store.String(), Step: step.Name, Want: step.Want, Got: err.Error(), Advice: adviceRepeat, Err: err}
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid)
	switch {
	case errors.As(err, new(surprise)):
		e.Unfit, e.Err = true, nil
	case refused && step.rewrites:
		e.Unfit, e.Advice = true, adviceLocked
		return e
	case errors.Is(err, fs.ErrExist), errors.Is(err, ErrChanged), errors.Is(err, fs.ErrNotExist):
		e.Unfit = true
	}
	if e.Unfit {
		e.Advice = step.advice
	}
	return e
}

// clean removes the object, even if ctx has ended: it is of no use to anybody.
func (p *probe) clean(ctx context.Context) error {
	if !p.began {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	return p.store.Remove(ctx, p.name)
}

// content is unlike that of every other write.
func (p *probe) content(what string) []byte {
	return fmt.Appendf(nil, "etcd-ferry probe %s: %s\n", p.id, what)
}

// place asks a store that knows where it lies, as a directory does.
func (p *probe) place(context.Context) error {
	where, ok := As[interface{ Local() error }](p.store)
	if !ok {
		return nil
	}
	if err := where.Local(); err != nil {
		return surprise(err.Error())
	}
	return nil
}

func (p *probe) create(ctx context.Context) error {
	data := p.content("created")
	info, err := p.store.Create(ctx, p.name, bytes.NewReader(data))
	p.began = err == nil || !IsPermanent(err)
	p.newest, p.version = data, info.Version
	return err
}

func (p *probe) absence(ctx context.Context) error {
	_, _, err := p.store.Read(ctx, p.name+"-never-written")
	switch {
	case err == nil:
		return surprise("there is an object")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

func (p *probe) readNewest(ctx context.Context) error {
	data, version, err := p.store.Read(ctx, p.name)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(data, p.newest):
		return surprise(fmt.Sprintf("it holds %.80q", data))
	case version != p.version:
		return surprise(fmt.Sprintf("its version is %q, and the write said %q", version, p.version))
	}
	return nil
}

func (p *probe) createAgain(ctx context.Context) error {
	_, err := p.store.Create(ctx, p.name, bytes.NewReader(p.content("created again")))
	switch {
	case err == nil:
		return surprise("it was created a second time")
	case errors.Is(err, fs.ErrExist):
		return nil
	}
	return err
}

func (p *probe) swap(ctx context.Context) error {
	data := p.content("swapped")
	version, err := p.store.Swap(ctx, p.name, p.version, data)
	switch {
	case err != nil:
		return err
	case version == "" || version == p.version:
		return surprise(fmt.Sprintf("its version is %q, as before", version))
	}
	p.newest, p.version, p.stale = data, version, p.version
	return nil
}

func (p *probe) list(ctx context.Context) error {
	infos, err := p.store.List(ctx, p.name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(infos, func(i Info) bool { return i.Name == p.name })
	switch {
	case at < 0:
		return surprise("it is not listed")
	case infos[at].Version != p.version:
		return surprise(fmt.Sprintf("version %q is listed, and the write said %q", infos[at].Version, p.version))
	}
	return nil
}

func (p *probe) swapStale(ctx context.Context) error {
	return p.swapRefused(ctx, p.stale, "swapped at an old version")
}

func (p *probe) swapFirst(ctx context.Context) error {
	return p.swapRefused(ctx, "", "swapped into nothing")
}

// swapRefused is a swap that must not happen.
func (p *probe) swapRefused(ctx context.Context, old Version, what string) error {
	_, err := p.store.Swap(ctx, p.name, old, p.content(what))
	switch {
	case err == nil:
		return surprise("it was overwritten")
	case errors.Is(err, ErrChanged):
		return nil
	}
	return err
}
