package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// Fail returns an error that is told in these words and is of a class, nil for
// one that proves nothing.
func Fail(class error, text string) error { return failure{text, class} }

type failure struct {
	text  string
	class error
}

func (f failure) Error() string { return f.text }

func (f failure) Unwrap() error { return f.class }

// Absent is what a driver returns for an object that is proven not to be there.
func Absent() error { return Fail(fs.ErrNotExist, "there is no such object") }

// sourceError is an error of the source that Create reads.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// errSource stands for the error of a source where an SDK sees it.
var errSource = errors.New("the source failed")

// own are classes that an error of a driver may have without Explain. That
// something does not exist is not among them: it might be a file.
var own = []error{
	fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, store.ErrChanged, store.ErrNoContainer, errors.ErrUnsupported,
	context.Canceled, context.DeadlineExceeded,
}

// explain says in which call err is the error, and what it proves.
func (s *Store) explain(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	where := fmt.Sprintf("%s %.80q in %s", op, name, s)
	var source sourceError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", where, ctx.Err())
	case errors.As(err, &source):
		return fmt.Errorf("%s: its source: %w", where, source.error)
	}
	return fmt.Errorf("%s: %w", where, s.class(op, err))
}

// class returns what is to be told of an error.
func (s *Store) class(op string, err error) error {
	var known failure
	if errors.As(err, &known) {
		return err
	}
	if explained := s.driver.Explain(op, err); explained != nil {
		return explained
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // without the URL, which may be all that one needs to sign in
	}
	known = failure{text: err.Error()}
	for _, class := range own {
		if errors.Is(err, class) {
			known.class = class
		}
	}
	return known
}

// Later marks err with the time after which a store wants to be asked again, if
// its answer says so.
func Later(answer *http.Response, err error) error {
	if answer == nil {
		return err
	}
	after := answer.Header.Get("Retry-After")
	if seconds, wrong := strconv.Atoi(after); wrong == nil {
		return store.Later(err, time.Duration(seconds)*time.Second)
	}
	if at, wrong := http.ParseTime(after); wrong == nil {
		return store.Later(err, time.Until(at))
	}
	return err
}

// Refused reports whether whoever issues tokens has said no.
func Refused(answer *http.Response) bool {
	return answer != nil && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests
}

// OneLine returns text without line breaks, and not too much: that of a proxy may
// be a whole page.
func OneLine(text string) string {
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(text), " "))
}
