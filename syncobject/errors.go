package syncobject

import (
	"errors"
	"fmt"
)

// What reading can end with, besides fs.ErrNotExist and the store's own errors.
var (
	// ErrMalformed says that the content is no object: the read has failed, and
	// nothing follows from it.
	ErrMalformed = errors.New("malformed object")
	// ErrUnknown says that the object is of a newer version or in a state that
	// this code does not know. A source is fenced by it.
	ErrUnknown = errors.New("object of a newer version, update etcd-ferry")
)

// What writing can end with, besides those and the store's own errors.
var (
	// ErrAmbiguous says that a write may or may not have happened, or may still
	// happen. Repeat the update: it finds out.
	ErrAmbiguous = errors.New("it is unknown whether the write happened, try again")
	// ErrVanished says that an object has gone that is never removed. Nothing is
	// created in its place.
	ErrVanished = errors.New("object has disappeared, somebody has removed it")
	// ErrTooLarge says that an object would have more than MaxSize bytes.
	ErrTooLarge = errors.New("object is too large")
	// ErrContended says that other writers were faster every time. Nothing was
	// written.
	ErrContended = errors.New("other writers were faster every time, try again")
)

// Why a step is refused. The error is a *Refusal, which wraps one of them.
var (
	// ErrConflict says that somebody else, or another operation, is at it.
	ErrConflict = errors.New("conflict")
	// ErrDecided says that it is decided already what is handed over, or that
	// it has been.
	ErrDecided = errors.New("decided already")
	// ErrNotPending says that no hand-over is pending: none was wanted, or it was
	// aborted.
	ErrNotPending = errors.New("no hand-over is pending")
	// ErrNotReady says that it is not decided yet what is handed over.
	ErrNotReady = errors.New("not decided yet")
	// ErrNotFenced says that the source has not said that it is fenced.
	ErrNotFenced = errors.New("the source is not fenced")
	// ErrReclaimed says that an operator has taken the hand-over back after it
	// was decided.
	ErrReclaimed = errors.New("reclaimed by an operator")
	// ErrInvalid says that the step itself lacks something; nothing about the
	// object.
	ErrInvalid = errors.New("invalid request")
)

// Refusal is the error of a step that is not allowed in the state the object is
// in. It wraps the reason.
type Refusal struct {
	Step   string // "claim", "publish", …
	Reason error  // one of the errors above
	// Who is in the way, if anybody is: the id of an owner, a destination or an
	// operation.
	Who    string
	Detail string // for people, may be empty
	Object Object // as it was found
}

// Error says what was refused, why, and in which state.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%s: %v", r.Step, r.Reason)
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.Object.Absent() {
		return text + " (there is no sync object)"
	}
	state := string(r.Object.Status)
	if !r.Object.Pending() {
		state = string(r.Object.Outcome)
	}
	return fmt.Sprintf("%s (operation %s, generation %d, %s)", text, r.Object.OperationID, r.Object.Generation, state)
}

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Reason }
