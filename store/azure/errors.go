package azure

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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// explain gives an error its class and says what was being done.
func (s *Store) explain(verb, name string, err error) error {
	return s.say(verb, name, classify(err))
}

func (s *Store) say(verb, name string, err error) error {
	return fmt.Errorf("%s %.80q in %s: %w", verb, name, s, err)
}

// classify gives what the SDK says the classes of the port. Errors of this
// package have theirs.
func classify(err error) error {
	var answer *azcore.ResponseError
	var token *azidentity.AuthenticationFailedError
	var request *url.Error
	switch {
	case errors.As(err, &answer):
		return later(answer.RawResponse, classifyAnswer(answer))
	case errors.As(err, &token) && refused(token.RawResponse):
		return fmt.Errorf("%w: the credentials are refused, are they still valid? %.300s", fs.ErrPermission, oneLine(token.Error()))
	case errors.As(err, &request):
		return opaque(request.Err) // without the URL, whose query may be a signature
	}
	return err
}

// classes are what codes of Azure mean. The code that is missing here, and is
// not about permissions, can be tried again.
var classes = map[bloberror.Code]error{
	bloberror.ContainerNotFound:        fmt.Errorf("%w: there is no such container: is its name right? It has to be made before the first backup", store.ErrNoContainer),
	bloberror.BlobNotFound:             fs.ErrNotExist,
	bloberror.BlobAlreadyExists:        fs.ErrExist,
	bloberror.ConditionNotMet:          store.ErrChanged,
	bloberror.BlobImmutableDueToPolicy: fmt.Errorf("%w: an immutability policy or a legal hold forbids to overwrite or delete it, use a container without one", fs.ErrPermission),
}

// classifyAnswer gives the answer of the server its class. Its text is left out:
// of a signature that does not match it tells too much.
func classifyAnswer(answer *azcore.ResponseError) error {
	text := fmt.Sprintf("%d %s", answer.StatusCode, answer.ErrorCode)
	class, known := classes[bloberror.Code(answer.ErrorCode)]
	switch {
	case known:
		return fmt.Errorf("%w: %s", class, text)
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: the credentials need the role Storage Blob Data Contributor, or a valid key or signature that may read, write, list and delete, and the account's firewall must let us in: %s", fs.ErrPermission, text)
	}
	return errors.New(text)
}

// later marks err with the time for which the server asked to be left alone.
func later(answer *http.Response, err error) error {
	if answer == nil {
		return err
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 if it did not
	return store.Later(err, time.Duration(seconds)*time.Second)
}

// refused reports whether whoever issues tokens has said no.
func refused(answer *http.Response) bool {
	return answer != nil && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

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
