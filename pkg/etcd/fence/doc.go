// Package fence keeps an etcd from serving: it finds the etcd of a data dir,
// ends it, and holds the lock without which none serves there (HANDOVER §5).
//
//	f := fence.New(dataDir)
//	err := f.Probe(gate)               // at start-up: may we?
//	lock, exit, err := f.Fence(ctx, gate) // now nothing serves, and nothing will
//	...
//	err = lock.Release()
//
// # Who is etcd
//
// Whoever holds the exclusive flock on member/snap/db, as /proc/locks tells. A
// name proves nothing and is never looked at. Without a holder nobody is
// signalled, but the gate and what it has started.
//
// /proc/locks names a file by device and inode as the kernel's file system layer
// sees them. On ext4, XFS and tmpfs these are what stat(2) says; on btrfs the
// device is another one, on overlayfs both may be. So a lock on the same device
// and inode counts, unless the open files of its process can be read and the
// database is not among them; a lock on anything else counts only if the open
// files of its process can be read and the database is among them. What cannot
// be decided is ErrUnknownHolder, and nobody is signalled. Containers of one pod
// see each other's processes and locks only if they share the process namespace;
// that they have mount namespaces of their own does not matter. To look at the
// open files of a process takes the same user id and no fewer capabilities.
//
// A process is its id and its start time. It is signalled through a pidfd that
// was opened before both were looked at, so that a reused id is never hit. Linux
// 5.3 or later is needed.
//
// # The lock
//
// Lock is a shared flock. That keeps bbolt's exclusive one out as well as an
// exclusive one would: etcd waits for the file, and answers nobody. And it lets
// others read: the final snapshot is taken from the locked file. It lasts as long
// as this process.
//
// An etcd with an empty data dir has lost nothing, but would serve an empty key
// space. So where there is no database, Hold makes an empty file in its place,
// and Release takes it away again; an etcd that waited for it then fails, and
// starts properly the next time. datadir.Dir.Empty knows such a file.
//
// # Not promised
//
// An etcd that waited for the lock on a database which was moved away, by a
// restore for example, gets it when the lock is released, and with it a file
// that is no longer there. It cannot happen to an etcd behind the gate.
// A process that left the gate's subtree before the gate was known is found only
// when it holds the lock.
package fence
