package gcs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// explain gives an error its class and says what was being done.
func (s *Store) explain(verb, name string, err error) error {
	return s.say(verb, name, classify(err))
}

func (s *Store) say(verb, name string, err error) error {
	return fmt.Errorf("%s %.80q in %s: %w", verb, name, s, err)
}

// classify gives what the client library says the classes of the port. Errors of
// this package have theirs.
func classify(err error) error {
	var answer *googleapi.Error
	var token *auth.Error
	var request *url.Error
	switch {
	case errors.Is(err, storage.ErrBucketNotExist):
		return fmt.Errorf("%w: there is no such bucket: is its name right? It has to be made before the first backup", store.ErrNoContainer)
	case errors.As(err, &answer):
		return later(answer.Header, classifyAnswer(answer))
	case errors.As(err, &token) && refused(token):
		return fmt.Errorf("%w: the credentials are refused, are they still valid? %.200s", fs.ErrPermission, oneLine(token.Error()))
	case errors.As(err, &request):
		return opaque(request.Err) // without the URL, which may be that of an upload
	}
	return err
}

// classifyAnswer gives the answer of the server its class. All that can be tried
// again is left without one.
func classifyAnswer(answer *googleapi.Error) error {
	text := describe(answer)
	switch {
	case answer.Code != http.StatusUnauthorized && answer.Code != http.StatusForbidden || limited(answer):
		return errors.New(text)
	case protected(answer):
		return fmt.Errorf("%w: a retention policy or a hold forbids to overwrite or delete it, use a bucket without one: %s", fs.ErrPermission, text)
	}
	return fmt.Errorf("%w: the credentials need the role Storage Object Admin (roles/storage.objectAdmin) on the bucket: %s", fs.ErrPermission, text)
}

// later marks err with the time for which the server asked to be left alone.
func later(header http.Header, err error) error {
	seconds, _ := strconv.Atoi(header.Get("Retry-After")) // 0 if it did not
	return store.Later(err, time.Duration(seconds)*time.Second)
}

// describe is the answer in one line: that of a proxy may be a whole page.
func describe(answer *googleapi.Error) string {
	text := answer.Message
	if text == "" {
		text = oneLine(answer.Body)
	}
	return fmt.Sprintf("%d %s: %.200s", answer.Code, http.StatusText(answer.Code), text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// limited reports whether a refusal is about too many requests.
func limited(answer *googleapi.Error) bool {
	return hasReason(answer, "rateLimitExceeded", "userRateLimitExceeded")
}

// protected reports whether a refusal is about the object, whoever asks.
func protected(answer *googleapi.Error) bool {
	return hasReason(answer, "retentionPolicyNotMet", "objectUnderActiveHold")
}

func hasReason(answer *googleapi.Error, reasons ...string) bool {
	return slices.ContainsFunc(answer.Errors, func(item googleapi.ErrorItem) bool {
		return slices.Contains(reasons, item.Reason)
	})
}

func isStatus(err error, status int) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == status
}

// refused reports whether whoever issues tokens has said no.
func refused(err *auth.Error) bool {
	return err.Response != nil && err.Response.StatusCode < http.StatusInternalServerError && !err.Temporary()
}

// opaque keeps of an error its text, and whether a context ended. Its class, say
// fs.ErrNotExist, would be about a file of credentials.
func opaque(err error) error {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return errors.New(err.Error())
}
