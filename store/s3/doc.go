// Package s3 is a store in a bucket of Amazon S3, or of a server that speaks its
// protocol and knows conditional writes.
//
// # Writing
//
//	create: what fits into one part → PutObject if the name is free
//	        else: is the name free? → CreateMultipartUpload → UploadPart, some at
//	        once, until the source ends → CompleteMultipartUpload if the name is
//	        still free; on any failure AbortMultipartUpload
//	swap:   PutObject if the ETag is still the old one
//
// "If" is a header of the request, so that the server decides. Nothing is listed
// before it is complete. Memory holds a few parts, whatever the size and
// however many objects are created at once. The SHA-256 of a small object is in
// its signature, and the server checks it; that of parts is not, to spare both
// sides the time: who creates big objects reads them back.
//
// A crashed writer leaves an unfinished upload, which is never seen, but costs
// storage. The next upload aborts those in its folder that are a day old. MinIO
// does not tell of them, and aborts them by itself.
//
// # Repeating
//
// The SDK repeats nothing, because it would take its own lost success for
// somebody else's. Retry from package store knows better. The exception are the
// requests of an upload in parts, whose source can seldom be read twice: a part
// can be sent again, and after a failed completion the store looks whose object
// is there. An id of the upload is in the object's metadata.
//
// # Versions
//
// A version is the ETag. It is a hash of the content unless the object was sent
// in parts or encrypted by the server: a version returns with equal bytes.
//
// # Errors
//
// Only the server's own words count: the code NoSuchKey proves absence, a mere
// status 404 or 403 proves nothing, nor does any answer that is not S3's. The
// SDK's errors are told, not wrapped.
//
// # Credentials
//
// The files of Config.CredentialsDir are read for every request, and bad ones
// change nothing. Write them elsewhere and turn a symbolic link, as Kubernetes
// does: between two files that are written in place, requests are refused.
//
// # Not promised
//
//   - Anything on servers that ignore If-Match and If-None-Match.
//   - That removing frees space in a bucket with versions or retention: a
//     lifecycle rule for old versions does.
//   - That a create which was cancelled leaves no unfinished upload.
package s3
