package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// description is an OpenAPI document that answers are held against.
type description struct {
	root    map[string]any
	schemas *jsonschema.Compiler
}

const documentURL = "test:///openapi.json"

func describedBy(t *testing.T, document []byte) *description {
	t.Helper()
	d := &description{schemas: jsonschema.NewCompiler()}
	d.schemas.AssertFormat()
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		t.Fatal(err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	d.root = root.(map[string]any)
	if err := d.schemas.AddResource(documentURL, root); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns what is at the end of a path of names, past references, and where that
// is.
func (d *description) at(names ...string) (value any, where string) {
	value, where = d.root, "#"
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, where
		}
		value, where = object[name], where+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if object, ok = value.(map[string]any); ok {
			if ref, ok := object["$ref"].(string); ok {
				value, where = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
		}
	}
	return value, where
}

// check returns what is not as it is described in an answer.
func (d *description) check(method, path string, answer *http.Response, body []byte) error {
	operation, _ := d.at("paths", path, strings.ToLower(method))
	if operation == nil && answer.StatusCode == http.StatusMethodNotAllowed {
		method = http.MethodPost // as Allow says
	}
	status := strconv.Itoa(answer.StatusCode)
	response, where := d.at("paths", path, strings.ToLower(method), "responses", status)
	if response == nil {
		return fmt.Errorf("%s %s: the answer %s is not described", method, path, status)
	}
	headers, _ := d.at("paths", path, strings.ToLower(method), "responses", status, "headers")
	if err := d.checkHeaders(headers, answer.Header); err != nil {
		return fmt.Errorf("%s %s: %s: %w", method, path, status, err)
	}
	described, _ := response.(map[string]any)["content"].(map[string]any)
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	if len(described) == 0 && len(body) == 0 {
		return nil
	}
	if described[kind] == nil {
		return fmt.Errorf("%s %s: %s: %q is not described, only %v", method, path, status, kind, slices.Collect(maps.Keys(described)))
	}
	if kind != "application/json" {
		return nil
	}
	_, schema := d.at("paths", path, strings.ToLower(method), "responses", status, "content", kind, "schema")
	if err := d.valid(schema, body); err != nil {
		return fmt.Errorf("%s %s: %s, see %s: %w", method, path, status, where, err)
	}
	return nil
}

func (d *description) checkHeaders(described any, have http.Header) error {
	all, _ := described.(map[string]any)
	for name, header := range all {
		if ref, ok := header.(map[string]any)["$ref"].(string); ok {
			header, _ = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if required, _ := header.(map[string]any)["required"].(bool); required && have.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	return nil
}

func (d *description) valid(schema string, body []byte) error {
	compiled, err := d.schemas.Compile(documentURL + schema)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return compiled.Validate(v)
}

// documents are what each mode says of itself, and what it answers.
func documents() map[string]struct {
	document []byte
	routes   routes
} {
	anything := http.NotFoundHandler()
	d := New(nil, nil, nil)
	d.Metrics = anything
	c := NewCopyMode(nil)
	c.Metrics = anything
	v := NewVerifyMode(nil)
	v.Metrics = anything
	return map[string]struct {
		document []byte
		routes   routes
	}{"server": {serverOpenAPI, d.routes()}, "copy": {copyOpenAPI, c.routes()}, "verify": {verifyOpenAPI, v.routes()}}
}

// TestDescriptionsAreOpenAPI holds the documents against OpenAPI's own schema, and
// every schema in them against JSON Schema's.
func TestDescriptionsAreOpenAPI(t *testing.T) {
	meta, err := os.Open("testdata/openapi-3.1.schema.json") // https://spec.openapis.org/oas/3.1/schema/2022-10-07
	if err != nil {
		t.Fatal(err)
	}
	defer meta.Close()
	schema, err := jsonschema.UnmarshalJSON(meta)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	const url = "https://spec.openapis.org/oas/3.1/schema/2022-10-07"
	if err := c.AddResource(url, schema); err != nil {
		t.Fatal(err)
	}
	openAPI := c.MustCompile(url)
	for name, d := range documents() {
		t.Run(name, func(t *testing.T) {
			described := describedBy(t, d.document)
			if err := openAPI.Validate(described.root); err != nil {
				t.Error(err)
			}
			schemas, _ := described.at("components", "schemas")
			for name := range asObject(schemas) {
				if _, err := described.schemas.Compile(documentURL + "#/components/schemas/" + name); err != nil {
					t.Error(err)
				}
			}
			wantReferences(t, described, described.root)
		})
	}
}

func asObject(v any) map[string]any { o, _ := v.(map[string]any); return o }

// wantReferences wants each reference to lead somewhere.
func wantReferences(t *testing.T, d *description, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if ref, ok := inner.(string); ok && name == "$ref" {
				if to, _ := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); to == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			wantReferences(t, d, inner)
		}
	case []any:
		for _, inner := range v {
			wantReferences(t, d, inner)
		}
	}
}

// TestEveryRouteIsDescribed, and everything that is described is a route.
func TestEveryRouteIsDescribed(t *testing.T) {
	for name, d := range documents() {
		t.Run(name, func(t *testing.T) {
			var served, described []string
			for pattern := range d.routes {
				method, path, found := strings.Cut(pattern, " ")
				if !found { // whatever has no method of its own: that is described as 405 of those that have
					continue
				}
				served = append(served, method+" "+strings.TrimSuffix(path, "{$}"))
			}
			paths, _ := describedBy(t, d.document).at("paths")
			for path, operations := range asObject(paths) {
				for method := range asObject(operations) {
					described = append(described, strings.ToUpper(method)+" "+path)
				}
			}
			slices.Sort(served)
			slices.Sort(described)
			if !slices.Equal(served, described) {
				t.Errorf("served are\n%s\ndescribed are\n%s", strings.Join(served, "\n"), strings.Join(described, "\n"))
			}
		})
	}
}

// checked answers with h, and fails the test if that is not as it is described.
func checked(t *testing.T, document []byte, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Result()
	defer answer.Body.Close()
	if err := describedBy(t, document).check(r.Method, r.URL.Path, answer, w.Body.Bytes()); err != nil {
		t.Errorf("not as it is described: %v\n%s", err, w.Body)
	}
	return w
}

// TestCheckNoticesWhatIsNotDescribed breaks an answer in each way.
func TestCheckNoticesWhatIsNotDescribed(t *testing.T) {
	d := describedBy(t, serverOpenAPI)
	good, err := json.Marshal(progress(Status{Role: Owner}))
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]struct {
		method, path, kind string
		status             int
		body               string
		good               bool
	}{
		"good":               {"GET", "/copyop/status", "application/json", 200, string(good), true},
		"a status":           {"GET", "/copyop/status", "application/json", 418, string(good), false},
		"a path":             {"GET", "/copyop/state", "application/json", 200, string(good), false},
		"a method":           {"PUT", "/copyop/status", "application/json", 200, string(good), false},
		"a content type":     {"GET", "/copyop/status", "text/plain", 200, string(good), false},
		"no JSON":            {"GET", "/copyop/status", "application/json", 200, "{", false},
		"a field is missing": {"GET", "/copyop/status", "application/json", 200, `{"initiated":false}`, false},
		"a role":             {"GET", "/copyop/status", "application/json", 200, strings.Replace(string(good), `"Owner"`, `"King"`, 1), false},
		"a type":             {"GET", "/copyop/status", "application/json", 200, strings.Replace(string(good), `"pending":false`, `"pending":"no"`, 1), false},
		"an error code":      {"GET", "/owner", "application/json", 501, `{"error":{"code":"odd","message":"x"}}`, false},
		"a header":           {"POST", "/copyop/abort", "application/json", 401, `{"error":{"code":"unauthorized","message":"x"}}`, false},
	} {
		answer := &http.Response{StatusCode: broken.status, Header: http.Header{"Content-Type": {broken.kind}}}
		if err := d.check(broken.method, broken.path, answer, []byte(broken.body)); (err == nil) != broken.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCopyModeAnswersAsDescribed, before its hand-over has begun and in any state that
// there is.
func TestCopyModeAnswersAsDescribed(t *testing.T) {
	c := NewCopyMode(copier.NewHandOver("b", copier.Container{}, copier.Container{}))
	c.Name, c.Metrics = "b", MetricsHandler(prometheus.NewRegistry())
	for path, want := range map[string]int{"/": 200, "/openapi.yaml": 200, "/livez": 200, "/metrics": 200, "/healthz": 503, "/copyop/status": 200} {
		if r := checked(t, copyOpenAPI, c.Handler(), httptest.NewRequest(http.MethodGet, path, nil)); r.Code != want {
			t.Errorf("%s: %d %s", path, r.Code, r.Body)
		}
	}
	d := describedBy(t, copyOpenAPI)
	for _, stage := range copier.Stages {
		s := copier.Status{
			State: stage, OperationID: "o", Generation: 2, SourcePhase: syncobject.Fenced, WaitSeconds: 1, DecidedBy: "source",
			ThroughRevision: 7, Trouble: "some",
		}
		body, err := json.Marshal(s)
		if err == nil {
			err = d.valid("#/components/schemas/Status", body)
		}
		if err != nil {
			t.Errorf("%s: %v", stage, err)
		}
		if v := copyVerdict(s); v.Title == "" || v.Text == "" || v.Level == "" {
			t.Errorf("%s: the page says %+v", stage, v)
		}
		if h := page.NewHandOver(c.asObject(s)); (stage == copier.Finished) != (h.Level == page.Quiet) {
			t.Errorf("%s: the page says %s", stage, h.Title)
		}
	}
}

// TestAboutPages looks at what each mode answers for people and machines.
func TestAboutPages(t *testing.T) {
	metrics := MetricsHandler(prometheus.NewRegistry())
	v := NewVerifyMode(nil)
	v.Name, v.Metrics = "the store", metrics
	for path, says := range map[string]string{"/": "The first verification is under way", "/openapi.yaml": "etcd-ferry verify", "/livez": "ok", "/metrics": ""} {
		r := checked(t, verifyOpenAPI, v.Handler(), httptest.NewRequest(http.MethodGet, path, nil))
		if r.Code != http.StatusOK || !strings.Contains(r.Body.String(), says) {
			t.Errorf("%s: %d %s", path, r.Code, r.Body)
		}
	}
}
