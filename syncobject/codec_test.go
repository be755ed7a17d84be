package syncobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBareObjects(t *testing.T) {
	for _, s := range []Status{Initial, Ready, Done} {
		o, err := Parse(fmt.Appendf(nil, ` {"status": %q, "note": 1}`+"\n", s))
		if err != nil || o.Status != s || o.Generation != 1 || !o.Pending() || o.SchemaVersion != 1 {
			t.Errorf("%s: %v, %+v", s, err, o)
		}
	}
	fenced, err := bare(t, Initial).Report(1, srcA, SourceReport{Phase: Fenced})
	if err != nil {
		t.Fatal(err)
	}
	data, err := fenced.Encode()
	var gep struct{ Status string }
	if err != nil || json.Unmarshal(data, &gep) != nil || gep.Status != "Initial" {
		t.Errorf("a GEP reader reads %q: %v", gep.Status, err)
	}
}

// The bytes are those of HANDOVER §7: the names, their order, and that empty
// values are there.
func TestEncoding(t *testing.T) {
	o := reach(t, "claim b", "report a", "publish a")
	o.SchemaVersion, o.OperationID, o.Serial, o.WriteID = 1, "op", 17, "w"
	data, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/object.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%s", data)
	}
	back, err := Parse(data)
	if err != nil || !reflect.DeepEqual(back, o) {
		t.Errorf("%v, %+v", err, back)
	}
}

func TestEmptyListsAreLists(t *testing.T) {
	data, err := bare(t, Initial).Encode()
	if err != nil || !strings.Contains(string(data), `"items": []`) || !strings.Contains(string(data), `"fencedMembers": []`) {
		t.Errorf("%v, %s", err, data)
	}
}

// Everything that is refused, and how. None of it counts as absent.
func TestRefusedObjects(t *testing.T) {
	item := func(change string, value any) string {
		m := map[string]any{}
		data, _ := json.Marshal(set(100).Items[0])
		_ = json.Unmarshal(data, &m)
		m[change] = value
		data, _ = json.Marshal(m)
		return fmt.Sprintf(`{"status":"Ready","snapshots":{"items":[%s]}}`, data)
	}
	list := func(name string, digest string, count int) string {
		return fmt.Sprintf(`{"status":"Ready","snapshots":{"list":{"name":%q,"sha256":%q,"count":%d}}}`, name, digest, count)
	}
	digest := strings.Repeat("0a", 32)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":                   {"", ErrMalformed},
		"html":                    {"<html>503</html>", ErrMalformed},
		"xml":                     {`<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`, ErrMalformed},
		"truncated":               {`{"status":"Ini`, ErrMalformed},
		"no end":                  {`{"status":"Initial"`, ErrMalformed},
		"array":                   {`[{"status":"Initial"}]`, ErrMalformed},
		"null":                    {`null`, ErrMalformed},
		"string":                  {`"Initial"`, ErrMalformed},
		"trailing object":         {`{"status":"Initial"}{}`, ErrMalformed},
		"trailing garbage":        {`{"status":"Initial"} x`, ErrMalformed},
		"too large":               {`{"status":"Initial","x":"` + strings.Repeat("y", MaxSize) + `"}`, ErrMalformed},
		"not utf-8":               {"{\"status\":\"Initial\",\"x\":\"\xff\"}", ErrMalformed},
		"two statuses":            {`{"status":"Initial","status":"Done"}`, ErrMalformed},
		"hidden second status":    {`{"status":"Initial","\u0073tatus":"Done"}`, ErrMalformed},
		"status by another name":  {`{"status":"Initial","Status":"Done"}`, ErrMalformed},
		"two owners":              {`{"status":"Initial","owner":{"id":"a","id":"b"}}`, ErrMalformed},
		"no status":               {`{}`, ErrMalformed},
		"null status":             {`{"status":null}`, ErrMalformed},
		"number as status":        {`{"status":1}`, ErrMalformed},
		"unknown status":          {`{"status":"Paused"}`, ErrUnknown},
		"lower case status":       {`{"status":"initial"}`, ErrUnknown},
		"empty status":            {`{"status":""}`, ErrUnknown},
		"newer":                   {`{"status":"Initial","schemaVersion":2}`, ErrUnknown},
		"newer and all different": {`{"schemaVersion":3,"generation":"7"}`, ErrUnknown},
		"much newer":              {`{"status":"Initial","schemaVersion":1e30}`, ErrUnknown},
		"negative version":        {`{"status":"Initial","schemaVersion":-1}`, ErrMalformed},
		"version in words":        {`{"status":"Initial","schemaVersion":"two"}`, ErrMalformed},
		"version without more":    {`{"status":"Initial","schemaVersion":1}`, ErrMalformed},
		"no version":              {`{"status":"Initial","generation":1}`, ErrMalformed},
		"negative generation":     {`{"status":"Initial","schemaVersion":1,"generation":-1}`, ErrMalformed},
		"huge generation":         {`{"status":"Initial","schemaVersion":1,"generation":9223372036854775808}`, ErrMalformed},
		"broken generation":       {`{"status":"Initial","schemaVersion":1,"generation":1.5}`, ErrMalformed},
		"resolved ahead":          {`{"status":"Initial","schemaVersion":1,"generation":1,"observedGeneration":2}`, ErrMalformed},
		"negative observed":       {`{"status":"Initial","schemaVersion":1,"generation":1,"observedGeneration":-1}`, ErrMalformed},
		"negative serial":         {`{"status":"Initial","serial":-1}`, ErrMalformed},
		"negative epoch":          {`{"status":"Initial","owner":{"epoch":-1}}`, ErrMalformed},
		"pending with an outcome": {`{"status":"Done","outcome":"Completed"}`, ErrMalformed},
		"resolved without one":    {`{"status":"Done","schemaVersion":1,"generation":1,"observedGeneration":1}`, ErrMalformed},
		"unknown outcome":         {`{"status":"Done","schemaVersion":1,"generation":1,"observedGeneration":1,"outcome":"Lost"}`, ErrMalformed},
		"completed, but Ready":    {`{"status":"Ready","schemaVersion":1,"generation":1,"observedGeneration":1,"outcome":"Completed"}`, ErrMalformed},
		"superseded, but Initial": {`{"status":"Initial","schemaVersion":1,"generation":1,"observedGeneration":1,"outcome":"Superseded"}`, ErrMalformed},
		"aborted, but Done":       {`{"status":"Done","schemaVersion":1,"generation":1,"observedGeneration":1,"outcome":"Aborted"}`, ErrMalformed},
		"decided by a stranger":   {`{"status":"Ready","decision":{"by":"me"}}`, ErrMalformed},
		"decided, but Initial":    {`{"status":"Initial","decision":{"by":"source"}}`, ErrMalformed},
		"operation is a path":     {`{"status":"Initial","operationID":"../x"}`, ErrMalformed},
		"operation is hidden":     {`{"status":"Initial","operationID":".x"}`, ErrMalformed},
		"operation is long":       {`{"status":"Initial","operationID":"` + strings.Repeat("x", 129) + `"}`, ErrMalformed},
		"owner of two lines":      {`{"status":"Initial","owner":{"id":"a\nb"}}`, ErrMalformed},
		"destination with NUL":    {`{"status":"Initial","destination":{"id":"\u0000"}}`, ErrMalformed},
		"long owner":              {`{"status":"Initial","owner":{"id":"` + strings.Repeat("x", 254) + `"}}`, ErrMalformed},
		"owner is a list":         {`{"status":"Initial","owner":[]}`, ErrMalformed},
		"time is a number":        {`{"status":"Initial","createdAt":5}`, ErrMalformed},
		"negative W":              {`{"status":"Initial","destination":{"forceAfterSeconds":-1}}`, ErrMalformed},
		"negative revision":       {`{"status":"Ready","snapshots":{"throughRevision":-1}}`, ErrMalformed},
		"item is null":            {`{"status":"Ready","snapshots":{"items":[null]}}`, ErrMalformed},
		"item elsewhere":          {item("name", "../full-0000000000000100-20261120T231600Z.db.zst"), ErrMalformed},
		"item in a folder":        {item("name", "x/full-0000000000000100-20261120T231600Z.db.zst"), ErrMalformed},
		"item of another kind":    {item("kind", "delta"), ErrMalformed},
		"item without size":       {item("size", 0), ErrMalformed},
		"item without revision":   {item("revision", 0), ErrMalformed},
		"item with half a digest": {item("sha256", digest[:32]), ErrMalformed},
		"item with a big digest":  {item("sha256", strings.ToUpper(digest)), ErrMalformed},
		"item without digest":     {item("sha256", ""), ErrMalformed},
		"list elsewhere":          {list("../x", digest, 1), ErrMalformed},
		"list of nothing":         {list("x", digest, 0), ErrMalformed},
		"endless list":            {list("x", digest, 1<<40), ErrMalformed},
		"list without digest":     {list("x", "", 1), ErrMalformed},
	} {
		other := map[error]error{ErrMalformed: ErrUnknown, ErrUnknown: ErrMalformed}[c.want]
		if o, err := Parse([]byte(c.text)); !errors.Is(err, c.want) || errors.Is(err, other) || !reflect.DeepEqual(o, Object{}) {
			t.Errorf("%s: %v, %+v", name, err, o)
		}
	}
	if _, err := Parse([]byte(item("version", "same"))); err != nil {
		t.Errorf("a good item: %v", err)
	}
	if _, err := Parse([]byte(list("sets/x.json", digest, 5))); err != nil {
		t.Errorf("a good list: %v", err)
	}
}

const strange = `{
  "status": "Initial", "schemaVersion": 1, "operationID": "op", "generation": 3, "observedGeneration": 2,
  "serial": 17, "writeID": "w", "outcome": "",
  "owner": {"id": "a", "epoch": 4, "lineage": "x", "rack": "7 <&> 8"},
  "source": {"phase": "Resting", "fencedMembers": ["m"], "load": 1e400},
  "destination": {"id": "b", "forceAfterSeconds": 600, "region": null},
  "decision": {"quorum": [1, 2]},
  "snapshots": {"compression": "zstd", "items": [], "list": {"name": "sets/x.json", "count": 1, "more": 1,
    "sha256": "abababababababababababababababababababababababababababababababab"}},
  "annotations": {"b": 1, "a": {"status": "Done", "status": "Done"}}, "zz": "\ud800", "": 12345678901234567890 }`

// Unknown members survive, where they are, byte for byte but for white space.
func TestUnknownMembersSurvive(t *testing.T) {
	o, err := Parse([]byte(strange))
	if err != nil {
		t.Fatal(err)
	}
	o, err = o.Report(3, Holder{ID: "a"}, SourceReport{Phase: Fenced, At: t0})
	if err != nil {
		t.Fatal(err)
	}
	for name, then := range map[string]func(Object) (Object, error){
		"publish": func(o Object) (Object, error) { return o.Publish(3, Holder{ID: "a"}, set(100), t0) },
		"force":   func(o Object) (Object, error) { return o.Force(3, "b", set(100), Forcing{}) },
		"commit": func(o Object) (Object, error) {
			if o, err = o.Take(3, "b", set(100), t0); err != nil {
				return o, err
			}
			return o.Commit(3, dstB)
		},
	} {
		o, err := then(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantUnknown(t, name, o, `"rack":"7 <&> 8"`, `"load":1e400`, `"region":null`, `"quorum":[1,2]`, `"compression":"zstd"`,
			`"annotations":{"b":1,"a":{"status":"Done","status":"Done"}}`, `"zz":"\ud800"`, `"":12345678901234567890`)
	}
	o, err = o.Abort(3, "", t0)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = o.Claim(Claim{ID: "c", At: t0}); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, "next generation", o, `"rack":"7 <&> 8"`, `"zz":"\ud800"`)
	if data, _ := o.MarshalJSON(); bytes.Contains(data, []byte("quorum")) {
		t.Errorf("the next generation begins with what was said of the last one: %s", data)
	}
}

func wantUnknown(t *testing.T, name string, o Object, members ...string) {
	t.Helper()
	data, err := o.Encode()
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, data)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, m := range members {
		if !strings.Contains(compact.String(), m) {
			t.Errorf("%s: %s is lost in %s", name, m, compact.String())
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	if _, err := (Object{}).Encode(); err == nil {
		t.Error("absence is encoded")
	}
	if _, err := (Owner{}).Encode(); err == nil {
		t.Error("absence is encoded")
	}
	many := bare(t, Ready)
	for range 400 {
		many.Snapshots.Items = append(many.Snapshots.Items, set(100).Items...)
	}
	if _, err := many.Encode(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// What does not fit with white space may fit without.
func TestLargeObjectsAreCompact(t *testing.T) {
	o := bare(t, Ready)
	for range 255 {
		o.Snapshots.Items = append(o.Snapshots.Items, set(100).Items...)
	}
	data, err := o.Encode()
	if err != nil || len(data) > MaxSize || bytes.Contains(data, []byte("\n")) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	roundTrip(t, o)
}

// 64 KiB of brackets from a stranger do not become gigabytes of white space.
func TestDeepObjectsAreCompact(t *testing.T) {
	deep := `{"status":"Initial","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"
	o, err := Parse([]byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	data, err := o.Encode()
	if err != nil || bytes.Contains(data, []byte("\n")) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	roundTrip(t, o)
}

// FuzzMembers compares with encoding/json, which lets the last of two win.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(strange))
	f.Add([]byte(` {"a" : "\\"}{[", "b":[{"}":-1e9 } ,[]],"":null , "\\u0061b":true}  `))
	f.Add([]byte(`{"a":1,"\u0061":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		if !utf8.Valid(data) || json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		got, err := members(data)
		if err != nil {
			if !strings.Contains(err.Error(), "occurs twice") || bytes.Count(data, []byte(":")) <= len(want) {
				t.Fatalf("%s: %v", data, err)
			}
			return
		}
		if !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%s: got %s, want %s", data, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"status":"Initial"}`))
	f.Add([]byte(strange))
	if data, err := os.ReadFile("testdata/object.json"); err == nil {
		f.Add(data)
	}
	for _, s := range states {
		if data, err := stamped(reach(f, s.reach...)).Encode(); err == nil { // all but the absent one
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Parse(data)
		if err != nil {
			if errors.Is(err, ErrMalformed) == errors.Is(err, ErrUnknown) {
				t.Fatalf("%v is of no class, or of both", err)
			}
			return
		}
		for _, me := range []string{"", "a"} {
			if v := Judge(&o, me, 0); o.Pending() && v == Own {
				t.Fatalf("pending, but owned: %s", data)
			}
		}
		out, err := o.Encode()
		if errors.Is(err, ErrTooLarge) {
			return // it has grown by what was not there
		}
		if err != nil {
			t.Fatalf("%s is read, but not written: %v", data, err)
		}
		survives(t, data, out)
		roundTrip(t, o)
	})
}

// survives compares the members of in that are not ours with those of out.
func survives(t *testing.T, in, out []byte) {
	t.Helper()
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(in, &was) != nil || json.Unmarshal(out, &is) != nil {
		return // not an object on this level
	}
	ours := map[string]json.RawMessage{}
	plain, _ := Object{Status: Initial, SchemaVersion: 1, Generation: 1}.MarshalJSON()
	_ = json.Unmarshal(plain, &ours)
	for name := range maps.Keys(was) {
		if _, known := ours[name]; known {
			continue
		}
		var a, b bytes.Buffer
		if json.Compact(&a, was[name]) != nil || json.Compact(&b, is[name]) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("%q was %s and is %s", name, was[name], is[name])
		}
	}
}
