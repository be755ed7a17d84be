package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag   = flag.Int64("seed", -1, "replay this `seed` and print its story")
	seedsFlag  = flag.Int("seeds", defaultSeeds, "how many seeds TestSeeds runs")
	budgetFlag = flag.Duration("budget", defaultBudget, "no seed of TestSeeds begins later; 0: no limit")
	fromFlag   = flag.Uint64("from", 1, "the first seed of TestSeeds")
	shardsFlag = flag.Int("shards", 2, "processes that TestSeeds runs side by side")
	dropFlag   = flag.String("drop", "", "`numbers` of misfortunes that do not happen, with -seed")
	defectFlag = flag.String("defect", "", "a `defect` that is put in on purpose, with -seed")
	logFlag    = flag.Bool("log", false, "print all that the product logs, with -seed")
	shrinkFlag = flag.Bool("shrink", false, "leave out all misfortunes that a violation does not need, with -seed")
	quietFlag  = flag.Bool("quiet", false, "nothing goes wrong")
	themeFlag  = flag.String("theme", "", "what most misfortunes are about: `clocks, sleep, gates or retreat`")
	stepFlag   = flag.Uint64("step", 1, "seeds between two of one shard")
)

// shardVariable tells a process that it is a shard.
const shardVariable = "FERRY_SIM_SHARD"

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, set Settings) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r = newWorld(t, seed, set).run() })
	return r
}

// line is what a shard says of a seed.
type line struct {
	Result
	Took time.Duration
}

// TestShard runs seeds in a process that has one thread, no preemption and no
// collection in the middle of a seed. Each gives one line.
func TestShard(t *testing.T) {
	if os.Getenv(shardVariable) == "" {
		return // not a test of its own
	}
	debug.SetGCPercent(-1)
	set := Settings{Dir: t.TempDir(), Log: *logFlag, Quiet: *quietFlag, Defect: Defect(*defectFlag), Theme: Theme(*themeFlag), Drop: map[int]bool{}}
	for _, n := range strings.FieldsFunc(*dropFlag, func(r rune) bool { return r == ',' }) {
		number, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		set.Drop[number] = true
	}
	start := time.Now()
	for i := range *seedsFlag {
		if *budgetFlag > 0 && time.Since(start) > *budgetFlag {
			return
		}
		seed := *fromFlag + uint64(i)*(*stepFlag)
		began := time.Now()
		r := simulate(t, seed, set)
		if r.Violation == "" && *seedsFlag > 1 {
			r.Story = nil
		}
		data, err := json.Marshal(line{r, time.Since(began)})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s%s\n", prefix, data)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > 256<<20 {
			runtime.GC()
		}
	}
}

const prefix = "SIM "

// shard runs TestShard in a process of its own.
func shard(ctx context.Context, args []string, each func(line)) error {
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"-test.run", "^TestShard$", "-test.timeout", "0"}, args...)...)
	cmd.Env = append(os.Environ(), shardVariable+"=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return err
	}
	last := "none"
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	var rest []string
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), prefix)
		if !is {
			rest = append(rest, lines.Text())
			continue
		}
		var l line
		if err := json.Unmarshal([]byte(data), &l); err != nil {
			return err
		}
		last = strconv.FormatUint(l.Seed, 10)
		each(l)
	}
	if err := cmd.Wait(); err != nil {
		rest = rest[max(0, len(rest)-60):]
		return fmt.Errorf("shard %q: %w, the last seed that ended is %s\n%.20000s\n%.20000s", args, err, last, strings.Join(rest, "\n"), complaint.String())
	}
	return nil
}

// runSeeds runs seeds in several processes.
func runSeeds(t *testing.T, from uint64, n, shards int, more ...string) []line {
	t.Helper()
	var mu sync.Mutex
	var all []line
	var wg sync.WaitGroup
	for i := range min(shards, n) {
		wg.Go(func() {
			args := append([]string{
				"-from", fmt.Sprint(from + uint64(i)), "-step", fmt.Sprint(shards), "-seeds", fmt.Sprint((n - i + shards - 1) / shards),
			}, more...)
			err := shard(t.Context(), args, func(l line) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, l)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b line) int { return int(a.Seed) - int(b.Seed) })
	return all
}

// The seeds: none of them may break an invariant.
func TestSeeds(t *testing.T) {
	if *seedFlag >= 0 {
		t.Skip("-seed is given")
	}
	began := time.Now()
	all := runSeeds(t, *fromFlag, *seedsFlag, *shardsFlag, "-budget", budgetFlag.String(), "-theme", *themeFlag)
	took := time.Since(began)
	tally(t, all, took)
	told := 0
	for _, l := range all {
		if l.Violation == "" {
			continue
		}
		told++
		if told <= 5 {
			t.Errorf("seed %d: %s\n%s", l.Seed, l.Violation, l.Tell())
		} else {
			t.Errorf("seed %d: %s", l.Seed, l.Violation)
		}
	}
	if *budgetFlag > 0 && took > *budgetFlag {
		t.Logf("the budget of %v was over after %d of %d seeds", *budgetFlag, len(all), *seedsFlag)
	} else if len(all) != *seedsFlag {
		t.Errorf("%d of %d seeds came to an end", len(all), *seedsFlag)
	}
}

// tally makes sure that something has happened in the worlds.
func tally(t *testing.T, all []line, took time.Duration) {
	t.Helper()
	sum := Result{Counts: map[string]int{}}
	for _, l := range all {
		sum.Virtual += l.Virtual
		sum.Decisions += l.Decisions
		sum.Lossy += l.Lossy
		sum.Acked += l.Acked
		for what, n := range l.Counts {
			sum.Counts[what] += n
		}
	}
	t.Logf("%v", sum.Counts)
	t.Logf("%d seeds in %.0f s: %.0f h of virtual time, %d hand-overs, %d of them lossy, %d acknowledged writes",
		len(all), took.Seconds(), sum.Virtual.Hours(), sum.Decisions, sum.Lossy, sum.Acked)
	if n := len(all); n >= 50 && (sum.Decisions < n/2 || sum.Lossy < n/50 || sum.Acked < 50*n) {
		t.Errorf("too little has happened: %d hand-overs, %d lossy, %d writes", sum.Decisions, sum.Lossy, sum.Acked)
	}
}

// Replays one seed, and tells its story.
func TestReplay(t *testing.T) {
	if *seedFlag < 0 {
		return
	}
	drop := *dropFlag
	if *shrinkFlag {
		drop = shrink(t, drop)
	}
	for _, l := range replayed(t, drop) {
		t.Logf("story %x, took %v, without %q\n%s", l.Hash, l.Took, drop, l.Tell())
		if l.Violation != "" {
			t.Errorf("seed %d: %s", l.Seed, l.Violation)
		}
	}
}

func replayed(t *testing.T, drop string) []line {
	t.Helper()
	args := []string{"-drop", drop, "-defect", *defectFlag, "-theme", *themeFlag}
	for flag, on := range map[string]bool{"-log": *logFlag, "-quiet": *quietFlag} {
		if on {
			args = append(args, flag)
		}
	}
	return runSeeds(t, uint64(*seedFlag), 1, 1, args...)
}

// shrink returns the misfortunes that a violation happens without.
func shrink(t *testing.T, drop string) string {
	t.Helper()
	for number := range maxMisfortunes + 10 {
		without := strings.Trim(drop+","+strconv.Itoa(number), ",")
		if l := replayed(t, without); len(l) == 1 && l[0].Violation != "" {
			drop = without
		}
	}
	return drop
}
