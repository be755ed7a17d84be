package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// errNonsense is an answer that S3 does not give: some proxy's, or that of
// another kind of server. It proves nothing.
var errNonsense = errors.New("this is not how an S3 store answers: check the endpoint, and proxies on the way")

// permissions are what a user needs for an operation.
var permissions = map[string]string{
	"list": "s3:ListBucket", "open": "s3:GetObject", "read": "s3:GetObject", "create": "s3:PutObject and s3:AbortMultipartUpload",
	"swap": "s3:PutObject", "remove": "s3:DeleteObject",
}

// Explain implements cloud.Driver. Only the server's own words count.
func (d *driver) Explain(op string, err error) error {
	var response *http.Response
	if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
		response = answer.HTTPResponse().Response
	}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		advice, class := classify(op, api.ErrorCode())
		text := fmt.Sprintf("%s: %.300s", api.ErrorCode(), api.ErrorMessage())
		if advice != "" {
			text += ": " + advice
		}
		return cloud.Later(response, cloud.Fail(class, text))
	}
	if response == nil {
		return nil
	}
	if call := (*smithy.OperationError)(nil); errors.As(err, &call) { // without the SDK's own words
		err = call.Err
	}
	return cloud.Later(response, cloud.Fail(nil, err.Error()))
}

// classify returns what an error code means for an operation, nil if it proves
// nothing, and what to do about it. Codes that are not in the answer, but made
// from a mere status, are not among these.
func classify(op, code string) (advice string, class error) {
	switch code {
	case "NoSuchBucket":
		return "create the bucket, or correct its name", store.ErrNoContainer
	case "NoSuchKey":
		if op == "create" {
			return "", nil
		}
		return "", fs.ErrNotExist
	case "PreconditionFailed":
		if op == "create" || op == "copy" {
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
		if op == "copy" {
			return "", errors.ErrUnsupported
		}
		return "this server cannot do what is needed, such as conditional writes", fs.ErrInvalid
	}
	return "", nil
}
