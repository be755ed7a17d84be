package restorer

import (
	"os"

	"golang.org/x/sys/unix"
)

// push has the kernel begin to write a part of f to the disk. It is a hint: what
// was written is safe only after a Sync.
func push(f *os.File, offset, size int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), offset, size, unix.SYNC_FILE_RANGE_WRITE) })
}
