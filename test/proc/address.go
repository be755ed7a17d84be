package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Address returns a host and port of the loopback interface on which nobody
// listens. The port is below those that the kernel gives to outgoing connections,
// so that none of them takes it before a program that is yet to be started does.
func Address(t testing.TB) string {
	t.Helper()
	for range 100 {
		const lowest, highest = 10_000, 32_000
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.N(highest-lowest))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}
