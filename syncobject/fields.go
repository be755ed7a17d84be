package syncobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fields are the members of a JSON object that this code does not know. They
// survive a rewrite.
//
// encoding/json alone would not do: it takes "STATUS" for "status", lets the
// last of two win, and drops what it does not know.
type fields map[string]json.RawMessage

// decode fills the struct that known points to, and f with what is left. A null
// is an empty object.
func (f *fields) decode(data []byte, known any) error {
	*f = nil
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil
	}
	rest, err := members(data)
	if err != nil {
		return err
	}
	for _, k := range knownFields(reflect.ValueOf(known).Elem()) {
		if raw, there := rest[k.name]; there {
			if err := json.Unmarshal(raw, k.value.Addr().Interface()); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			delete(rest, k.name)
		}
		for name := range rest {
			if strings.EqualFold(name, k.name) {
				return fmt.Errorf("%q is not %q, but some would take it for that", name, k.name)
			}
		}
	}
	if len(rest) > 0 {
		*f = rest
	}
	return nil
}

// encode returns the struct known and f as one JSON object: first what is known,
// in the order of the struct, then the rest by name.
func (f fields) encode(known any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for _, k := range knownFields(reflect.ValueOf(known)) {
		if k.optional && k.value.IsZero() {
			continue
		}
		if err := writeMember(&out, k.name, k.jsonValue()); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := writeMember(&out, name, f[name]); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

type knownField struct {
	name     string
	optional bool
	value    reflect.Value
}

// jsonValue returns the value, a nil slice as an empty one.
func (k knownField) jsonValue() any {
	if k.value.Kind() == reflect.Slice && k.value.IsNil() {
		return []struct{}{}
	}
	return k.value.Interface()
}

func knownFields(v reflect.Value) []knownField {
	known := make([]knownField, 0, v.NumField())
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("json"); tag != "" {
			name, options, _ := strings.Cut(tag, ",")
			known = append(known, knownField{name, options == "omitempty", v.Field(i)})
		}
	}
	return known
}

// members splits a JSON object. It refuses a name that occurs twice.
func members(data []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	m := map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // the decoder lets nothing else be a name
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%q occurs twice", name)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		m[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return m, nil
}

func writeMember(out *bytes.Buffer, name string, value any) error {
	if out.Len() > 1 {
		out.WriteByte(',')
	}
	if err := writeValue(out, name); err != nil {
		return err
	}
	out.WriteByte(':')
	return writeValue(out, value)
}

func writeValue(out *bytes.Buffer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the line feed
	return nil
}
