package fence

import (
	"slices"
	"strings"
	"testing"
)

func TestParseLocks(t *testing.T) {
	const locks = `1: FLOCK  ADVISORY  WRITE 4096 fe:00:1234 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4097 fe:00:1234 0 EOF
2: POSIX  ADVISORY  WRITE 4098 00:2d:77 0 EOF
3: OFDLCK ADVISORY  WRITE -1 103:05:18446744073709551615 0 EOF
4: FLOCK  ADVISORY  READ  4099 fe:00:1235 0 EOF
5: LEASE  ACTIVE    READ  4100 fe:00:1236 0 EOF
6: FLOCK  ADVISORY  WRITE 4101 103:05:18446744073709551615 0 EOF
7: FLOCK  ADVISORY  WRITE -1 00:30:9 0 EOF
`
	want := []flockEntry{{4096, 0xfe, 0, 1234}, {4101, 0x103, 5, 18446744073709551615}}
	got, err := parseLocks(strings.NewReader(locks))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := parseLocks(strings.NewReader("1: FLOCK  ADVISORY  WRITE 4096 what 0 EOF\n")); err == nil {
		t.Errorf("nonsense is %v", got)
	}
}

func TestShowsLock(t *testing.T) {
	const info = "pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t1234\nlock:\t1: FLOCK  ADVISORY  WRITE 42 fe:00:1234 0 EOF\n"
	for name, test := range map[string]struct {
		info string
		want bool
	}{
		"his":       {info, true},
		"another's": {strings.Replace(info, " 42 ", " 43 ", 1), false},
		"shared":    {strings.Replace(info, "WRITE", "READ ", 1), false},
		"OFD":       {strings.Replace(info, "FLOCK ", "OFDLCK", 1), false},
		"none":      {"pos:\t0\n", false},
	} {
		if got := showsLock([]byte(test.info), 42); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
