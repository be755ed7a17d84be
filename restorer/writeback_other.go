//go:build !linux

package restorer

import "os"

func push(*os.File, int64, int64) {}
