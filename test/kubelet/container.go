package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// container is one as it runs.
type container struct {
	spec   Container
	mark   string // in the environment of all its processes
	log    buffer
	ready  atomic.Bool
	starts atomic.Int64
	dead   atomic.Bool // its node is

	mu    sync.Mutex
	entry int // pid of the entry process, 0 while there is none
}

func newContainer(t testing.TB, spec Container, index int) *container {
	mark := fmt.Sprintf("KUBELET_CONTAINER=%d/%s/%d/%d", os.Getpid(), t.Name(), index, time.Now().UnixNano())
	return &container{spec: spec, mark: mark}
}

// run keeps the container running until ctx ends, and then ends it.
func (c *container) run(ctx context.Context) {
	wait := firstBackOff
	for ctx.Err() == nil && !c.dead.Load() {
		began := time.Now()
		if err := c.once(ctx); err != nil {
			fmt.Fprintln(&c.log, "kubelet:", err)
		}
		if time.Since(began) > lastBackOff {
			wait = firstBackOff
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, lastBackOff)
		}
	}
}

// once runs the entry process to its end, and ends what it leaves behind.
func (c *container) once(ctx context.Context) error {
	// The processes end with the thread that started them, should this test die.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(c.spec.Command[0], c.spec.Command[1:]...)
	cmd.Env = append(append(os.Environ(), c.spec.Env...), c.mark)
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	cmd.WaitDelay = time.Second // for whoever still holds the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.starts.Add(1)
	c.setEntry(cmd.Process.Pid)
	gone := make(chan struct{})
	var asked sync.WaitGroup
	asked.Go(func() {
		select {
		case <-gone:
		case <-ctx.Done():
			c.end(gone)
		}
	})
	err := cmd.Wait()
	close(gone)
	asked.Wait()
	c.ready.Store(false)
	c.killAll()
	c.setEntry(0)
	return err
}

// end asks the entry process to end, and kills the container after the grace. A
// node that is dead asks nobody.
func (c *container) end(gone <-chan struct{}) {
	if c.dead.Load() {
		c.killAll()
		return
	}
	c.signal(syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(Grace):
		c.killAll()
	}
}

func (c *container) setEntry(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entry = pid
}

func (c *container) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry != 0 {
		_ = syscall.Kill(c.entry, s)
	}
}

// probe probes until ctx ends. A container that fails its liveness probe is ended.
func (c *container) probe(ctx context.Context) {
	var probes sync.WaitGroup
	probes.Go(func() { c.spec.Readiness.watch(ctx, &c.ready, func() {}) })
	probes.Go(func() {
		c.spec.Liveness.watch(ctx, new(atomic.Bool), func() {
			fmt.Fprintln(&c.log, "kubelet: liveness probe failed, the container is ended")
			c.restart(ctx)
		})
	})
	probes.Wait()
}

// restart ends the container as a failed liveness probe does.
func (c *container) restart(ctx context.Context) {
	c.mu.Lock()
	before := c.entry
	c.mu.Unlock()
	c.signal(syscall.SIGTERM)
	deadline := time.NewTimer(Grace)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		now := c.entry
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-deadline.C:
			c.killAll()
			return
		case <-time.After(10 * time.Millisecond):
			if now != before {
				return
			}
		}
	}
}

// killAll ends every process of the container, until there is none.
func (c *container) killAll() {
	for range 100 {
		pids := c.pids()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no virtual time
	}
}

// pids finds the living processes that carry the container's mark.
func (c *container) pids() []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, file := range files {
		environ, err := os.ReadFile(file) // of a zombie it is empty
		if err != nil || !bytes.Contains(environ, []byte(c.mark)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(pids, func(a, b int) int {
		switch c.entry {
		case a:
			return -1
		case b:
			return 1
		}
		return a - b
	})
	return pids
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
