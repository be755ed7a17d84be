package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

func swap(t *testing.T, s store.Store, name string, old store.Version, data string) store.Version {
	t.Helper()
	v, err := s.Swap(t.Context(), name, old, []byte(data))
	if err != nil {
		t.Fatalf("swap %q: %v", name, err)
	}
	if v == "" || v == old {
		t.Fatalf("swap %q of %q gave version %q", name, old, v)
	}
	return v
}

func wantRead(t *testing.T, s store.Store, name string, version store.Version, data string) {
	t.Helper()
	got, v, err := s.Read(t.Context(), name)
	if err != nil || string(got) != data || v != version {
		t.Fatalf("read %q answered %.80q, %q, %v, want %.80q, %q", name, got, v, err, data, version)
	}
}

func testSwap(t *testing.T, s store.Store) {
	v1 := swap(t, s, "dir/state", "", "one")
	wantRead(t, s, "dir/state", v1, "one")
	v2 := swap(t, s, "dir/state", v1, "two, which is longer")
	wantRead(t, s, "dir/state", v2, "two, which is longer")
	v3 := swap(t, s, "dir/state", v2, "")
	wantRead(t, s, "dir/state", v3, "")
	wantNames(t, s, "", "dir/state")
	if v1 == v2 || v2 == v3 || v1 == v3 {
		t.Errorf("versions %q, %q, %q are not three", v1, v2, v3)
	}

	data := []byte("four")
	v4, err := s.Swap(t.Context(), "dir/state", v3, data)
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "XXXX") // the caller's again
	got, _, err := s.Read(t.Context(), "dir/state")
	if err != nil {
		t.Fatal(err)
	}
	copy(got, "YYYY")
	wantRead(t, s, "dir/state", v4, "four")
}

func testSwapStale(t *testing.T, s store.Store) {
	v1 := swap(t, s, "state", "", "one")
	v2 := swap(t, s, "state", v1, "two")
	for _, old := range []store.Version{"", v1, "made up"} {
		_, err := s.Swap(t.Context(), "state", old, []byte("three"))
		wantErr(t, fmt.Sprintf("swap of version %q", old), err, store.ErrChanged)
	}
	wantRead(t, s, "state", v2, "two")
	_, err := s.Create(t.Context(), "state", strings.NewReader("three"))
	wantErr(t, "create over a swapped object", err, fs.ErrExist)

	_, err = s.Swap(t.Context(), "absent", v2, []byte("three"))
	wantErr(t, "swap of a version of nothing", err, store.ErrChanged)
	if err := s.Remove(t.Context(), "state"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Swap(t.Context(), "state", v2, []byte("three"))
	wantErr(t, "swap of what was removed", err, store.ErrChanged)
	wantNames(t, s, "")
}

func testSwapSize(t *testing.T, s store.Store) {
	largest := strings.Repeat("x", store.MaxSwap)
	v := swap(t, s, "state", "", largest)
	wantRead(t, s, "state", v, largest)
	_, err := s.Swap(t.Context(), "state", v, []byte(largest+"x"))
	wantErr(t, "swap of one byte too many", err, fs.ErrInvalid)
	wantRead(t, s, "state", v, largest)

	create(t, s, "large", largest+"x")
	_, _, err = s.Read(t.Context(), "large")
	wantErr(t, "read of one byte too many", err, fs.ErrInvalid)
}

func testVersions(t *testing.T, s store.Store) {
	created := create(t, s, "a", "one").Version
	wantVersion(t, s, "a", created)
	wantRead(t, s, "a", created, "one")
	swapped := swap(t, s, "a", created, "two")
	wantVersion(t, s, "a", swapped)
	wantRead(t, s, "a", swapped, "two")
}

func wantVersion(t *testing.T, s store.Store, name string, want store.Version) {
	t.Helper()
	body, info, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	infos, err := s.List(t.Context(), name)
	if err != nil || len(infos) != 1 {
		t.Fatalf("list answered %v, %v", infos, err)
	}
	if info.Version != want || infos[0].Version != want {
		t.Errorf("version of %q is %q when opened, %q when listed, want %q", name, info.Version, infos[0].Version, want)
	}
}

func testSwapRace(t *testing.T, s store.Store) {
	version := swap(t, s, "state", "", "start")
	for round := range 5 {
		version = raceSwaps(t, s, version, round)
	}
}

func testSwapCreateRace(t *testing.T, s store.Store) { raceSwaps(t, s, "", 0) }

// raceSwaps lets 32 swaps replace one version of the object "state".
func raceSwaps(t *testing.T, s store.Store, old store.Version, round int) store.Version {
	t.Helper()
	const writers = 32
	content := func(i int) string { return fmt.Sprintf("round %d, writer %d", round, i) }
	var versions [writers]store.Version
	errs := together(writers, func(i int) (err error) {
		versions[i], err = s.Swap(t.Context(), "state", old, []byte(content(i)))
		return err
	})
	won := winner(t, errs, store.ErrChanged)
	wantRead(t, s, "state", versions[won], content(won))
	return versions[won]
}

func testCreateSwapRace(t *testing.T, s store.Store) {
	content := func(i int) string { return fmt.Sprint("writer ", i) }
	for round := range 10 {
		name := fmt.Sprint("state", round)
		errs := together(8, func(i int) (err error) {
			if i%2 == 0 {
				_, err = s.Create(t.Context(), name, strings.NewReader(content(i)))
				return err
			}
			_, err = s.Swap(t.Context(), name, "", []byte(content(i)))
			switch {
			case errors.Is(err, store.ErrChanged):
				return fs.ErrExist // the same answer in the words of creates
			case errors.Is(err, fs.ErrExist):
				return errors.New("a swap answers with fs.ErrExist")
			}
			return err
		})
		wantContent(t, s, name, content(winner(t, errs, fs.ErrExist)))
	}
}

func testSwapCount(t *testing.T, s store.Store) {
	const writers, each = 8, 10
	errs := together(writers, func(i int) error {
		for n := range each {
			if err := increment(t, s, fmt.Sprintf("writer %d, step %d", i, n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	data, _, err := s.Read(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := bytes.Cut(data, []byte(" ")); string(got) != strconv.Itoa(writers*each) {
		t.Errorf("counted to %q, want %d", data, writers*each)
	}
}

// testSwapRemove lets a swap and a removal race. Whichever is first, the object
// is gone afterwards: removed after the swap, or not swapped.
func testSwapRemove(t *testing.T, s store.Store) {
	for round := range 20 {
		version := swap(t, s, "state", "", fmt.Sprintf("round %d", round))
		errs := together(2, func(i int) error {
			if i == 0 {
				return s.Remove(t.Context(), "state")
			}
			_, err := s.Swap(t.Context(), "state", version, fmt.Appendf(nil, "round %d, swapped", round))
			return err
		})
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		if errs[1] != nil {
			wantErr(t, "swap", errs[1], store.ErrChanged)
		}
		wantNames(t, s, "")
	}
}

// increment adds one to the object "counter". The note makes each write unique.
func increment(t *testing.T, s store.Store, note string) error {
	for {
		data, version, err := s.Read(t.Context(), "counter")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrNoContainer) {
			return err
		}
		number, _, _ := bytes.Cut(data, []byte(" "))
		n, _ := strconv.Atoi(string(number)) // 0 if absent
		_, err = s.Swap(t.Context(), "counter", version, fmt.Appendf(nil, "%d by %s", n+1, note))
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}
