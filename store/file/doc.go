// Package file is a store in a directory.
//
// # Writing
//
//	create: temp file → fsync → link(temp, name), which fails if name is taken
//	        → fsync of the directories → unlink temp
//	swap:   lock → compare the version → temp file → fsync → rename(temp, name)
//	        → fsync of the directories → unlock
//
// So an object is there whole or not at all, whenever the process or the
// machine stops, and what has returned survives both. Temp files are in ".tmp"
// below the directory, locked with flock while their writer lives; one that is
// not locked and an hour old is what a crash left, and the next create removes it.
// The lock of swaps and removals is flock on ".lock", freed by the kernel
// however its holder ends. Names that begin with a dot are never listed, and
// CheckName refuses them for objects.
//
// Files have mode 0600 and directories 0700, whatever the umask. Paths are
// resolved in an os.Root: no name and no symbolic link leads out of the
// directory. Only regular files are objects.
//
// # Versions
//
// A version is the modification time and the size. Every write sets the time to
// the clock or, in a swap, to later than that of the version it replaces,
// whichever is more. So a version does not return as long as the object is
// there, even if the same bytes are written again, and listing need not read
// the objects. Whoever edits an object by hand changes its version.
//
// # The directory
//
// The first write makes it, with its parents. Until then every reading call
// fails with store.ErrNoContainer: a volume that is not mounted must not pass
// for an empty store. Directories are never removed, nor taken for objects:
// where "a/b" was created, "a" is fs.ErrInvalid for writers and absent for
// readers.
//
// # Not promised
//
//   - Anything about swaps on filesystems that Local does not accept, such as
//     NFS: its locks may end at the machine's edge.
//   - That other programs see the locks: one that writes into the directory by
//     itself is not excluded.
//   - That a swap is undone everywhere if the power fails before it returns: a
//     reader may already have seen it.
//   - Fairness among swaps, and mount points below the directory: link and
//     rename cannot cross them.
package file
