// Package azure is a store in a container of Azure Blob Storage.
//
// # Writing
//
//	create: put a block blob if the name is free; above one block stage the
//	        blocks, some at once, and commit their list if the name is free
//	swap:   put the blob if it has the ETag that was read
//	copy:   within an account, StartCopyFromURL if the name is free, and wait
//
// An object is there when its list of blocks is committed. Blocks that never
// are do not list, and Azure removes them after a week.
//
// The client library repeats the requests of a create, and nothing else: the
// rest is repeated by store.Retry. A create that finds its name taken looks
// whose object is there, by a random id in the metadata, since an answer may
// have been lost on the way.
//
// # Versions
//
// A version is an ETag, without its quotes. Azure makes one for each write,
// whatever the bytes.
//
// # Errors
//
// Refused credentials and missing permissions are fs.ErrPermission, and so is an
// immutability policy or a legal hold: where one forbids to overwrite blobs,
// Swap works once per name and period.
//
// # Credentials
//
// With a directory of credentials, its files are looked at before each call, and
// other contents are used from then on, unless they make no sense:
//
//	connectionString              all in one, the endpoint too
//	storageAccount, storageKey    a shared key
//	storageAccount, sasToken      a shared access signature
//	storageAccount                the default chain
//
// The default chain is that of the SDK: workload identity, managed identity, and
// the AZURE_* variables.
//
// # Not promised
//
//   - That nobody sees the name of an object while the server copies it: other
//     programs do. Store neither lists nor opens it.
package azure
