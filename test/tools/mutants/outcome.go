package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

var (
	errSurvived = errors.New("it survives: no test has failed")
	errBuild    = errors.New("it does not compile")
	errNoTests  = errors.New("no test has run")
)

// outcome returns the tests that have failed by the words of "go test -json".
func outcome(said []byte, failed bool) (caught []string, err error) {
	ran := false
	var words strings.Builder
	for line := range bytes.Lines(said) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			e.Action, e.Output = "output", string(line) // go itself has something to say
		}
		ran = ran || e.Test != ""
		switch {
		case e.Action == "build-output":
			words.WriteString(e.Output)
		case e.Action == "build-fail":
			return nil, fmt.Errorf("%w: %s", errBuild, words.String())
		case e.Action == "output" && e.Test == "":
			words.WriteString(e.Output)
		case e.Action == "fail" && e.Test != "" && !strings.Contains(e.Test, "/"):
			caught = append(caught, e.Test)
		}
	}
	switch {
	case len(caught) > 0:
		return caught, nil
	case !ran:
		return nil, fmt.Errorf("%w: %s", errNoTests, words.String())
	case failed:
		return nil, fmt.Errorf("%w, but go test has: %s", errSurvived, words.String())
	}
	return nil, errSurvived
}
