//go:build !linux

package file

import "fmt"

// Local returns an error: which filesystems can be relied upon is known on Linux
// only.
func (s *Store) Local() error {
	return fmt.Errorf("the filesystem of %s is not known: use an object store", s)
}
