// Package cloud is what the object stores in clouds have in common. A provider
// is a Driver, which knows one kind of store and its SDK; Store makes of it what
// package store asks for.
//
// # Writing
//
//	create: what fits into one request is put if the name is free
//	        else: is the name free? → upload, and keep it if the name is still free
//	swap:   put if the object is still at the version that was read
//
// "If" is a condition of the request, so that the server decides. An SDK may
// repeat the requests of an upload, whose source can seldom be read twice, and
// nothing else: the rest is repeated by store.Retry. So an upload can find its
// name taken by itself, when an answer was lost. Each has a random id in the
// metadata of what it writes, and looks whose object is there.
//
// # Errors
//
// Only the store's own words count. What an SDK says else is told, not wrapped:
// somewhere in it can be a file that does not exist, which must not pass for an
// object.
//
// # Credentials
//
// The files of a mounted Secret are read for every request. Others are used from
// then on, unless they make no sense. Write them elsewhere and turn a symbolic
// link, as Kubernetes does: between two files that are written in place, requests
// may be refused.
package cloud
