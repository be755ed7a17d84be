package page

import (
	stdbytes "bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

var (
	//go:embed page.html
	markup string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// Page draws States.
type Page struct {
	template *template.Template
	policy   string
}

// New returns a Page.
func New() *Page {
	t := template.Must(template.New("page").Funcs(template.FuncMap{
		"number": number, "bytes": bytes, "span": span, "seconds": seconds, "moment": moment, "day": day, "hour": hour, "clock": clock, "machine": machine,
		"told": told, "rate": rate, "count": count, "short": short,
		// What is in this program needs no escaping; each is there as its hash says.
		"style":  func() template.CSS { return template.CSS(style) },
		"script": func() template.JS { return template.JS(script) },
	}).Parse(markup))
	return &Page{template: t, policy: strings.Join([]string{
		"default-src 'none'", "style-src " + hash(style), "script-src " + hash(script), "connect-src 'self'",
		"img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; ")}
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Answer writes the page, whole or not at all.
func (p *Page) Answer(w http.ResponseWriter, s State) error {
	if s.Refresh == 0 {
		s.Refresh = DefaultRefresh
	}
	var b stdbytes.Buffer
	if err := p.template.Execute(&b, s); err != nil {
		return fmt.Errorf("draw the status page: %w", err)
	}
	for name, value := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      p.policy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		w.Header().Set(name, value)
	}
	_, _ = b.WriteTo(w) // the caller has gone if this fails
	return nil
}
