// Package storeservers runs real object stores for tests: programs that speak
// the protocols of the clouds, each with its data in a directory of the test.
//
// A server listens on loopback only, on a port the kernel found free, and ends
// with its test, or with the test binary if that dies (Linux only). When a test
// fails, the end of the log of each of its servers is printed.
//
//	s3 := storeservers.StartVersityGW(t)
//	bucket := s3.Bucket(t)
//
// The binaries are those of "make tools". A test without them fails; it is
// never skipped.
//
// Not promised: that these servers are as strict as the clouds. Each one's file
// says what it gets wrong.
package storeservers
