package syncobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// MaxSize is the most bytes that an object may have.
const MaxSize = store.MaxSwap

// Parse reads a sync object. Its errors wrap ErrMalformed or ErrUnknown.
//
// A bare object of GEP-7, {"status":"Initial"}, is the pending generation 1,
// whatever else it has that is not known here. With status Ready or Done too it
// is pending, since it does not say who has taken over.
func Parse(data []byte) (Object, error) {
	var o Object
	if err := parse(data, "status", &o, Initial, Ready, Done); err != nil {
		return Object{}, err
	}
	if o.SchemaVersion == 0 && o.Generation == 0 {
		o.SchemaVersion, o.Generation = SchemaVersion, 1
	}
	if err := o.check(); err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return o, nil
}

// Encode is the inverse of Parse: JSON for people to read, if it fits. It
// refuses what Parse would refuse, and with ErrTooLarge what is too large.
func (o Object) Encode() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("sync object: %w", err)
	}
	return encode(ObjectName, o)
}

// ParseOwner reads an owner.json. Its errors wrap ErrMalformed or ErrUnknown.
func ParseOwner(data []byte) (Owner, error) {
	var o Owner
	if err := parse(data, "state", &o, Held, Released); err != nil {
		return Owner{}, err
	}
	if err := o.check(); err != nil {
		return Owner{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return o, nil
}

// Encode is the inverse of ParseOwner.
func (o Owner) Encode() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", OwnerName, err)
	}
	return encode(OwnerName, o)
}

// parse decodes data, after a look at what may say that the rest cannot be
// understood: a newer version, or a state that is not in states.
func parse[S ~string](data []byte, stateField string, into json.Unmarshaler, states ...S) error {
	if len(data) > MaxSize {
		return fmt.Errorf("%w: %d bytes, above the limit of %d", ErrMalformed, len(data), MaxSize)
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: not UTF-8", ErrMalformed)
	}
	var valid json.RawMessage
	if err := json.Unmarshal(data, &valid); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m, err := members(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := understood(m["schemaVersion"], m[stateField], stateField, states); err != nil {
		return err
	}
	if err := into.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func understood[S ~string](version, state json.RawMessage, stateField string, states []S) error {
	var v float64
	if version != nil && (json.Unmarshal(version, &v) != nil || v < 0) {
		return fmt.Errorf("%w: schemaVersion is no version", ErrMalformed)
	}
	if v > SchemaVersion {
		return fmt.Errorf("%w: it is of version %g, this is for version %d", ErrUnknown, v, SchemaVersion)
	}
	var s *S
	if json.Unmarshal(state, &s) != nil || s == nil {
		return fmt.Errorf("%w: no %s", ErrMalformed, stateField)
	}
	if slices.Contains(states, *s) {
		return nil
	}
	return fmt.Errorf("%w: its %s is %.40q", ErrUnknown, stateField, string(*s))
}

func encode(name string, o json.Marshaler) ([]byte, error) {
	compact, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	if len(compact) > MaxSize {
		return nil, fmt.Errorf("%w: %s would have %d bytes, the limit is %d", ErrTooLarge, name, len(compact), MaxSize)
	}
	if bytes.Count(compact, []byte("{"))+bytes.Count(compact, []byte("[")) > maxPretty {
		return compact, nil
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	pretty.WriteByte('\n')
	if pretty.Len() > MaxSize {
		return compact, nil
	}
	return pretty.Bytes(), nil
}

// maxPretty bounds how deep what is unknown can be nested if it is indented: the
// white space grows with the square of that.
const maxPretty = 500

var errAbsent = errors.New("there is none")
