package syncobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
			if err := unmarshal(raw, k.value.Addr().Interface()); err != nil {
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
	for name, raw := range rest { // data is the caller's
		rest[name] = bytes.Clone(raw)
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

// unmarshal is json.Unmarshal of what is known to be JSON.
func unmarshal(data json.RawMessage, into any) error {
	if u, ok := into.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(data)
	}
	return json.Unmarshal(data, into)
}

// members splits an object in data, which is JSON. It refuses a name that occurs
// twice.
func members(data []byte) (map[string]json.RawMessage, error) {
	data, is := bytes.CutPrefix(trimmed(data, ""), []byte("{"))
	if !is {
		return nil, errors.New("not a JSON object")
	}
	m := map[string]json.RawMessage{}
	for data = trimmed(data, ""); data[0] != '}'; data = trimmed(data, ",") {
		var quoted, value []byte
		quoted, data = first(data)
		value, data = first(trimmed(data, ":"))
		var name string
		if err := json.Unmarshal(quoted, &name); err != nil {
			return nil, err
		}
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%q occurs twice", name)
		}
		m[name] = value
	}
	return m, nil
}

// trimmed returns data without the space and the marks that it begins with.
func trimmed(data []byte, marks string) []byte { return bytes.TrimLeft(data, " \t\r\n"+marks) }

// first splits off the value that data begins with, within an object.
func first(data []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; ; i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return data[:i+1], data[i+1:]
			}
		case quoted:
		case depth == 0 && bytes.IndexByte([]byte(",} \t\r\n"), c) >= 0:
			return data[:i], data[i:]
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth == 0 {
				return data[:i+1], data[i+1:]
			}
		}
	}
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
