package file

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Local returns nil if the store's directory, or the nearest parent that exists,
// is on a filesystem whose locks, links and renames are known to be atomic for
// everyone who can reach it. Otherwise the error names the filesystem, and
// nothing that needs exactly one winner may rely on the store.
func (s *Store) Local() error {
	dir := filepath.Clean(s.dir)
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	for errors.Is(err, unix.ENOENT) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &fs)
	}
	if err != nil {
		return fmt.Errorf("find the filesystem of %s: %w", s, err)
	}
	if err := judge(uint32(fs.Type)); err != nil {
		return fmt.Errorf("%s is on %w: use a local disk (ext4, xfs, btrfs, zfs, …) or an object store", s, err)
	}
	return nil
}

// judge takes the magic number of a filesystem. Not all are in package unix.
func judge(magic uint32) error {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.TMPFS_MAGIC, 0x2FC12FC1 /* zfs */, 0xCA451A4E /* bcachefs */ :
		return nil
	case unix.NFS_SUPER_MAGIC:
		return errors.New("NFS, whose locks may not be seen by other machines")
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return errors.New("SMB, whose locks may not be seen by other machines")
	case unix.V9FS_MAGIC:
		return errors.New("9P, whose locks may not be seen by other machines")
	case unix.CEPH_SUPER_MAGIC:
		return errors.New("CephFS, on which etcd-ferry has not been tested")
	case unix.FUSE_SUPER_MAGIC:
		return errors.New("FUSE, behind which can be anything")
	}
	return fmt.Errorf("a filesystem etcd-ferry does not know (magic number %#x)", magic)
}
