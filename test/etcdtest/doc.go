// Package etcdtest runs real etcd processes for tests, of every version that
// etcd-ferry supports.
//
// A process listens on loopback only, on ports the kernel found free, and ends
// with its test: asked first, killed after a grace period, and killed by the
// kernel if the test binary dies (Linux only). When a test fails, the end of
// the log of each of its etcds is printed.
//
//	e := etcdtest.Start(t, etcdtest.WithVersion("3.5.35"))
//	revision := e.Fill(t, 1000, 1<<10)
//	hash, _ := e.HashKV(t, revision)
//
// The binaries are those of "make tools". A test without them fails; it is
// never skipped.
//
// Not promised: that a member finds its ports free again after Stop or Kill;
// another process may have taken them meanwhile, though the kernel hands them
// out in random order and Restart tries for a while.
package etcdtest
