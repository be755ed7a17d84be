package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server/web"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// retryAfter is what a caller is told to wait, in seconds, when the store has not
// answered.
const retryAfter = "2"

var errElectionOff = errors.New("owner election is off: start the server with --owner-id")

// wrongMethod answers whatever is no POST to what changes something.
func (d *Daemon) wrongMethod(w http.ResponseWriter, r *http.Request) {
	d.audit(r, "", false)
	w.Header().Set("Allow", http.MethodPost)
	fail(w, http.StatusMethodNotAllowed, "method_not_allowed", fmt.Errorf("%s changes something: it takes a POST", r.URL.Path))
}

// elected answers 501 if there is no election.
func (d *Daemon) elected(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.Election == nil {
			fail(w, http.StatusNotImplemented, "election_off", errElectionOff)
			return
		}
		next(w, r)
	}
}

// wish is the body of /copyop/initiate.
type wish struct {
	OperationID string `json:"operationID"`
}

func (d *Daemon) initiate(w http.ResponseWriter, r *http.Request) {
	var wanted wish
	if err := readBody(r, &wanted); err != nil {
		status, code := http.StatusBadRequest, "bad_request"
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status, code = http.StatusRequestEntityTooLarge, "too_large"
		}
		fail(w, status, code, err)
		return
	}
	web.Keep(r)
	o, created, err := d.Election.Initiate(r.Context(), wanted.OperationID)
	switch {
	case err != nil:
		refuse(w, o, err)
	case created:
		reply(w, http.StatusCreated, o)
	default:
		reply(w, http.StatusOK, o)
	}
}

// readBody decodes one JSON object, or leaves v as it is if there is no body.
func readBody(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf(`the body must be empty or {"operationID": "…"}: %w`, err)
	}
	return nil
}

func (d *Daemon) resolve(step func(*Election, context.Context) (syncobject.Object, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		web.Keep(r)
		o, err := step(d.Election, r.Context())
		if err != nil {
			refuse(w, o, err)
			return
		}
		reply(w, http.StatusOK, o)
	}
}

// refuse answers why a step on the sync object did not happen.
func refuse(w http.ResponseWriter, o syncobject.Object, err error) {
	var p problem
	status := http.StatusConflict
	switch refusal := new(syncobject.Refusal); {
	case errors.Is(err, ErrNotOwner):
		p.Error.Code = "not_owner"
	case errors.Is(err, syncobject.ErrInvalid):
		status, p.Error.Code = http.StatusBadRequest, "bad_request"
	case errors.Is(err, syncobject.ErrDecided):
		p.Error.Code = "decided"
	case errors.As(err, &refusal):
		p.Error.Code = "conflict"
	case errors.Is(err, syncobject.ErrVanished), errors.Is(err, syncobject.ErrUnknown):
		p.Error.Code = "unusable"
	default:
		w.Header().Set("Retry-After", retryAfter)
		status, p.Error.Code = http.StatusServiceUnavailable, "store"
		err = fmt.Errorf("it is not known to have happened, ask again: %w", err)
	}
	p.Error.Message, p.Error.OperationID = err.Error(), o.OperationID
	reply(w, status, p)
}

// Progress is the answer of /copyop/status.
type Progress struct {
	Initiated      bool               `json:"initiated"` // a hand-over was wanted at some time
	Pending        bool               `json:"pending"`   // and is not resolved yet
	Status         syncobject.Status  `json:"status"`
	Generation     int64              `json:"generation"`
	Role           Role               `json:"role"`
	Reason         string             `json:"reason"` // why etcd may not serve
	LeaseRemaining float64            `json:"leaseRemainingSeconds"`
	Age            float64            `json:"ageSeconds"` // of what is said here of the object
	Object         *syncobject.Object `json:"object"`     // as it was read last; null: there is none
	LastError      string             `json:"lastError"`  // of the last read
}

func (d *Daemon) status(w http.ResponseWriter, r *http.Request) {
	s := d.Election.Status()
	code := http.StatusOK
	if r.URL.Query().Get("fresh") == "true" {
		ctx, cancel := context.WithTimeout(r.Context(), freshPause+d.Election.Timing.Read)
		defer cancel()
		var err error
		if s, err = d.Election.Fresh(ctx); err != nil {
			code = http.StatusServiceUnavailable
		}
	}
	if !s.Known || s.Age > d.Election.Timing.Lease {
		code = http.StatusServiceUnavailable
	}
	if code != http.StatusOK {
		w.Header().Set("Retry-After", retryAfter)
	}
	reply(w, code, progress(s))
}

func progress(s Status) Progress {
	p := Progress{
		Role: s.Role, Reason: s.Reason, LeaseRemaining: max(0, s.Remaining).Seconds(), Age: s.Age.Seconds(),
		Object: s.Object, LastError: s.LastError,
	}
	if o := s.Object; o != nil {
		p.Initiated, p.Pending, p.Status, p.Generation = o.Generation > 0, o.Pending(), o.Status, o.Generation
	}
	return p
}

// Ownership is the answer of /owner: what whoever acts for a control plane checks
// before it acts.
type Ownership struct {
	ID             string    `json:"id"` // of this deployment
	Epoch          int64     `json:"epoch"`
	Lineage        string    `json:"lineage"`
	Role           Role      `json:"role"`
	Owner          bool      `json:"owner"`           // with a valid lease, now
	LeaseExpires   time.Time `json:"leaseExpiration"` // wall clock
	LeaseRemaining float64   `json:"leaseRemainingSeconds"`
	Reason         string    `json:"reason"` // why etcd may not serve
	Member         string    `json:"member"` // of the etcd cluster, hexadecimal
	Members        int       `json:"members"`
}

func (d *Daemon) owner(w http.ResponseWriter, _ *http.Request) {
	s := d.Election.Status()
	reply(w, http.StatusOK, Ownership{
		ID: d.Election.ID, Epoch: s.Holder.Epoch, Lineage: s.Holder.Lineage, Role: s.Role, Owner: s.Reason == "",
		LeaseExpires: s.Expires.UTC(), LeaseRemaining: max(0, s.Remaining).Seconds(), Reason: s.Reason,
		Member: s.Member, Members: s.Members,
	})
}
