package file_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/file"
)

// The test binary is also the process that is killed, see helper.
const helperEnv = "FILE_TEST_HELPER"

func TestMain(m *testing.M) {
	if job := os.Getenv(helperEnv); job != "" {
		if err := work(context.Background(), job, os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper returns a process that does a job on the store in dir.
func helper(t *testing.T, job, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), helperEnv+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

func work(ctx context.Context, job, dir string) error {
	s := file.New(dir)
	switch job {
	case "write": // until killed, telling what is done
		for i := 0; ; i++ {
			name := fmt.Sprintf("objects/%d-%d", os.Getpid(), i)
			if _, err := s.Create(ctx, name, bytes.NewReader(contentOf(name))); err != nil {
				return err
			}
			fmt.Println("created", name)
			n, err := increment(ctx, s)
			if err != nil {
				return err
			}
			fmt.Println("counted", n)
		}
	case "count":
		for range 20 {
			if _, err := increment(ctx, s); err != nil {
				return err
			}
		}
		return nil
	case "overflow": // write more than the process may
		limit := &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit); err != nil {
			return err
		}
		_, err := s.Create(ctx, "big", bytes.NewReader(make([]byte, 4<<20)))
		if !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("create: %w", err)
		}
		return nil
	}
	return errors.New("no such job")
}

// contentOf makes what is in an object, so that a part or a mixture shows.
func contentOf(name string) []byte { return bytes.Repeat([]byte(name+"\n"), 10_000) }

// counter is the content of the object "state".
func counter(n int) []byte { return contentOf(strconv.Itoa(n))[:20_000] }

func increment(ctx context.Context, s store.Store) (int, error) {
	for {
		data, version, err := s.Read(ctx, "state")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrNoContainer) {
			return 0, err
		}
		n, err := parseCounter(data)
		if err != nil {
			return 0, err
		}
		_, err = s.Swap(ctx, "state", version, counter(n+1))
		if !errors.Is(err, store.ErrChanged) {
			return n + 1, err
		}
	}
}

func parseCounter(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	n, err := strconv.Atoi(string(line))
	if err != nil || !bytes.Equal(data, counter(n)) {
		return 0, fmt.Errorf("the counter is torn: %.40q…, %d bytes", data, len(data))
	}
	return n, nil
}

// Whenever a writer is killed, what it reported done is there, and what is there
// is whole.
func TestKilledWriters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := file.New(dir)
	var done []string
	count := 0
	for range 25 {
		created, counted := killWriter(t, dir)
		done = append(done, created...)
		count = max(count, counted)

		var there []string
		for _, name := range list(t, s) {
			if name == "state" {
				continue
			}
			there = append(there, name)
			wantWhole(t, s, name)
		}
		for _, name := range done {
			if !slices.Contains(there, name) {
				t.Errorf("%s is gone", name)
			}
		}
		data, _, err := s.Read(t.Context(), "state")
		if err != nil && count > 0 {
			t.Fatal(err)
		}
		n, err := parseCounter(data)
		if err != nil || n < count || n > count+1 {
			t.Fatalf("the counter is at %d, %v, reported was %d", n, err, count)
		}
		count = n
	}
	if len(done) == 0 || count == 0 {
		t.Fatal("the writers did nothing")
	}

	s.TempAge = 0 // what killed writers left is nobody's
	create(t, s, "last", "x")
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("temp files are left: %q", left)
	}
}

// killWriter kills a writer at a random moment. It returns what it reported.
func killWriter(t *testing.T, dir string) (created []string, counted int) {
	t.Helper()
	cmd := helper(t, "write", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for wait := rand.IntN(4); lines.Scan(); wait-- {
		verb, what, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "created":
			created = append(created, what)
		case "counted":
			counted, _ = strconv.Atoi(what)
		default:
			t.Errorf("the writer failed: %s", lines.Text())
		}
		if wait == 0 {
			time.AfterFunc(rand.N(3*time.Millisecond), func() { cmd.Process.Kill() })
		}
	}
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended by itself: %s", cmd.ProcessState)
	}
	return created, counted
}

func wantWhole(t *testing.T, s store.Store, name string) {
	t.Helper()
	body, _, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if data, err := io.ReadAll(body); err != nil || !bytes.Equal(data, contentOf(name)) {
		t.Errorf("%s is torn: %d bytes, %v", name, len(data), err)
	}
}

func temps(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, ".tmp", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestProcessesCountTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var all []*exec.Cmd
	for range 4 {
		cmd := helper(t, "count", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	data, _, err := file.New(dir).Read(t.Context(), "state")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := parseCounter(data); n != 80 || err != nil {
		t.Errorf("counted to %d, %v, want 80", n, err)
	}
}

// A write that fails half way is a full disk as far as the store can tell.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := helper(t, "overflow", dir)
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if got := list(t, file.New(dir)); len(got) > 0 || len(temps(t, dir)) > 0 {
		t.Errorf("left are %q and %q", got, temps(t, dir))
	}
}

// However long a writer waits for its source, its temp file is its own.
func TestLivingWriterIsNotSwept(t *testing.T) {
	dir := t.TempDir()
	s := file.New(dir)
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Create(t.Context(), "slow", read)
		done <- err
	}()
	if _, err := write.Write([]byte("first, ")); err != nil {
		t.Fatal(err)
	}
	longAgo := time.Now().Add(-48 * time.Hour)
	for _, path := range temps(t, dir) {
		if err := os.Chtimes(path, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "other", "x")
	if left := temps(t, dir); len(left) != 1 {
		t.Errorf("temp files left are %q", left)
	}
	if _, err := write.Write([]byte("second")); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if data, _, err := s.Read(t.Context(), "slow"); string(data) != "first, second" {
		t.Errorf("it wrote %q, %v", data, err)
	}
}

// The states in which a crash between two steps leaves the directory.
func TestHalfStates(t *testing.T) {
	dir := t.TempDir()
	s := file.New(dir)
	create(t, s, "a", "whole")
	leave := func(name string, age time.Duration) string {
		path := filepath.Join(dir, ".tmp", name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, []byte("part"), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	leave("dead", file.DefaultTempAge+time.Minute)
	young := leave("young", file.DefaultTempAge-time.Minute)
	slow := leave("slow", file.DefaultTempAge+time.Minute)
	writer, err := os.Open(slow)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := syscall.Flock(int(writer.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	linked := leave("linked", file.DefaultTempAge+time.Minute) // named, but not yet unlinked
	if err := os.Link(linked, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}

	if got := list(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q are listed", got)
	}
	create(t, s, "c", "x")
	if left, want := temps(t, dir), []string{slow, young}; !slices.Equal(left, want) {
		t.Errorf("temp files left are %q, want %q", left, want)
	}
	if data, _, err := s.Read(t.Context(), "b"); string(data) != "part" {
		t.Errorf("b holds %q, %v", data, err)
	}
}
