// Package gcs is a store in a bucket of Google Cloud Storage.
//
// # Writing
//
//	create: insert if the name is free, in one request or, above 256 KiB, in a
//	        resumable upload of chunks
//	swap:   insert if the object is at the generation that was read
//
// An object is there when the last chunk has been accepted. An upload that is
// given up leaves nothing that lists or costs.
//
// The client library repeats chunks, and nothing else: the rest is repeated by
// store.Retry. A create that finds its name taken looks whose object is there,
// by a random id in the metadata, since an answer may have been lost on the way.
//
// # Versions
//
// A version is a generation, which never returns. Content is read at one
// generation even if the object is replaced meanwhile.
//
// # Errors
//
// A 404 is the object's absence only if the bucket can be listed; if there is no
// bucket it is store.ErrNoContainer. Refused credentials and missing permissions
// are fs.ErrPermission, and so is a retention policy or a hold: where one
// forbids to overwrite objects, Swap works once per name and period.
//
// # Credentials
//
// With a directory of credentials, the file serviceaccount.json in it is looked
// at before each call, and another key is used from then on, unless it makes no
// sense. Without one they are the application default credentials: workload identity, the metadata
// server, or what GOOGLE_APPLICATION_CREDENTIALS names.
//
// # Not promised
//
//   - More than one write per second of one name: Google answers 429, which
//     store.Retry repeats.
//   - Reading what others have uploaded with Content-Encoding: gzip.
package gcs
