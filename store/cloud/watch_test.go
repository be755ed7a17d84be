package cloud

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Slow is not stalled: neither a receiver that takes its time, nor a line over
// which much goes little by little.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		conn := &watchedConn{here, time.Minute}
		go there.Write([]byte("12"))
		p := make([]byte, 1)
		for range 2 {
			<-time.After(time.Hour)
			if _, err := conn.Read(p); err != nil {
				t.Error(err)
			}
		}
		go func() {
			p := make([]byte, 64<<10)
			for range 100 {
				<-time.After(50 * time.Second)
				if _, err := io.ReadFull(there, p); err != nil {
					t.Error(err)
				}
			}
		}()
		if n, err := conn.Write(make([]byte, 100*64<<10)); n != 100*64<<10 || err != nil {
			t.Errorf("sent %d bytes, %v", n, err)
		}
		began := time.Now()
		if _, err := conn.Read(p); err == nil || time.Since(began) != time.Minute {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}
