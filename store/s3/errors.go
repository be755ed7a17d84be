package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// errNonsense is an answer that S3 does not give: some proxy's, or that of
// another kind of server. It proves nothing.
var errNonsense = errors.New("this is not how an S3 store answers: check the endpoint, and proxies on the way")

// sourceError is an error of the source that Create reads.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// failure is an error that is told in its own words and is of a class, nil for
// one that proves nothing.
type failure struct {
	text  string
	class error
}

func (f failure) Error() string { return f.text }

func (f failure) Unwrap() error { return f.class }

// permissions are what a user needs for an operation.
var permissions = map[string]string{
	"list": "s3:ListBucket", "open": "s3:GetObject", "read": "s3:GetObject", "create": "s3:PutObject and s3:AbortMultipartUpload",
	"swap": "s3:PutObject", "remove": "s3:DeleteObject",
}

// explain classifies what a call of the SDK failed with, and says what to do.
// The SDK's errors are not wrapped, only told: somewhere in them can be a file
// that does not exist, which must not pass for an object.
func (s *Store) explain(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	where := fmt.Sprintf("%s %s in %s", op, name, s)
	var source sourceError
	var api smithy.APIError
	switch {
	case errors.As(err, &source):
		return fmt.Errorf("%s: its source: %w", where, source.error)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", where, ctx.Err())
	case errors.As(err, &api):
		return later(err, answer(op, where, api))
	}
	var class error
	for _, own := range []error{fs.ErrPermission, fs.ErrInvalid, fs.ErrExist, errors.ErrUnsupported} {
		if errors.Is(err, own) {
			class = own
		}
	}
	return later(err, failure{where + ": " + reason(err), class})
}

// answer returns the error for an answer of the server.
func answer(op, where string, api smithy.APIError) error {
	advice, class := classify(op, api.ErrorCode())
	text := fmt.Sprintf("%s: %s: %.300s", where, api.ErrorCode(), api.ErrorMessage())
	if advice != "" {
		text += ": " + advice
	}
	return failure{text, class}
}

// classify returns what an error code means for an operation, nil if it proves
// nothing, and what to do about it. Codes that are not in the answer, but made
// from a mere status, are not among these.
func classify(op, code string) (advice string, class error) {
	switch code {
	case "NoSuchBucket":
		return "create the bucket, or correct its name", store.ErrNoContainer
	case "NoSuchKey":
		switch op {
		case "swap":
			return "", store.ErrChanged
		case "create":
			return "", nil
		}
		return "", fs.ErrNotExist
	case "PreconditionFailed":
		if op == "create" {
			return "", fs.ErrExist
		}
		return "", store.ErrChanged
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return "give the user of these credentials " + permissions[op], fs.ErrPermission
	case "InvalidAccessKeyId", "XAdminUserNotFound", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return "renew or correct the credentials", fs.ErrPermission
	case "RequestTimeTooSkewed":
		return "set this machine's clock", fs.ErrPermission
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return "set the region and the endpoint of the bucket", fs.ErrInvalid
	case "NotImplemented", "MethodNotAllowed":
		return "this server cannot do what is needed, such as conditional writes", fs.ErrInvalid
	}
	return "", nil
}

// reason returns the part of an error that is not about the SDK itself.
func reason(err error) string {
	if sent := (*smithyhttp.RequestSendError)(nil); errors.As(err, &sent) {
		return sent.Err.Error()
	}
	if op := (*smithy.OperationError)(nil); errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// later marks err with the time after which the server wants to be asked again.
func later(cause, err error) error {
	response := (*smithyhttp.ResponseError)(nil)
	if !errors.As(cause, &response) || response.HTTPResponse() == nil {
		return err
	}
	after := response.HTTPResponse().Header.Get("Retry-After")
	if seconds, wrong := strconv.Atoi(after); wrong == nil {
		return store.Later(err, time.Duration(seconds)*time.Second)
	}
	if at, wrong := http.ParseTime(after); wrong == nil {
		return store.Later(err, time.Until(at))
	}
	return err
}
