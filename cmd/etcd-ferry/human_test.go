package main

import (
	"testing"
	"time"
)

func TestBytesize(t *testing.T) {
	for text, want := range map[string]bytesize{
		"0": 0, "17": 17, "17B": 17, "1KiB": 1024, "16MiB": 16 << 20, "3GiB": 3 << 30, "1TiB": 1 << 40,
	} {
		var b bytesize
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%q is read as %d, %v, want %d", text, int64(b), err, int64(want))
		}
	}
	for _, text := range []string{"", "B", "MiB", "-1", "1.5MiB", "1MB", "1 MiB", "1iB", "9999999999GiB", "1MiBMiB"} {
		b := bytesize(42)
		if err := b.Set(text); err == nil {
			t.Errorf("%q is read as %d", text, int64(b))
		}
	}
	for b, want := range map[bytesize]string{0: "0B", 1023: "1023B", 1536: "1.5KiB", 16 << 20: "16MiB", 1 << 50: "1024TiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d is written as %s, want %s", int64(b), got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := count(n); got != want {
			t.Errorf("%d is written as %s, want %s", n, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Minute: "0s", 59 * time.Second: "59s", 90 * time.Minute: "1h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("the age of %s is written as %s, want %s", d, got, want)
		}
	}
}
