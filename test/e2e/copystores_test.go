package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// plannedCopy is the JSON of a dry run.
type plannedCopy struct {
	MissingBytes int64 `json:"missingBytes"`
	Snapshots    []struct {
		State    string   `json:"state"`
		Manifest manifest `json:"manifest"`
	} `json:"snapshots"`
}

// TestCopyBetweenAccounts copies between two servers with different keys, in all
// the ways that the flags of a copy allow.
func TestCopyBetweenAccounts(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	from, to := bucket(t, storeservers.StartVersityGW(t)), bucket(t, storeservers.StartMinIO(t))
	var taken []manifest
	backUp := func(kind string) { taken = append(taken, takeIn(t, from, kind, source)) }
	history(t, source, backUp)
	backUp("full")
	since := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	source.Fill(t, 5, 100)
	backUp("delta")
	newest := names(taken[4:])

	for name, c := range map[string]struct {
		flags []string
		want  []string
	}{
		"everything":          {nil, names(taken)},
		"latest":              {[]string{"--latest"}, newest},
		"since":               {[]string{"--since=" + since}, newest},
		"since long ago":      {[]string{"--since=2020-01-01T00:00:00Z"}, names(taken)},
		"lineage":             {[]string{"--lineage=" + taken[0].Lineage}, names(taken)},
		"slow, one at a time": {[]string{"--parallel=1", "--bandwidth=4MiB"}, names(taken)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := to.in(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""))
			plan := decode[plannedCopy](t, must(t, copying(from, to, append(slices.Clip(c.flags), "--dry-run")...)...))
			var planned []string
			for _, s := range plan.Snapshots {
				planned = append(planned, s.Manifest.Name)
				if s.State != "missing" {
					t.Errorf("%s is %s", s.Manifest.Name, s.State)
				}
			}
			if !slices.Equal(sorted(planned), sorted(c.want)) {
				t.Errorf("planned are %v, want %v", planned, c.want)
			}
			if l := listIn(t, to); len(l.Snapshots)+len(l.Strays)+l.Foreign > 0 {
				t.Errorf("the dry run stored %+v", l)
			}
			if r := decode[copied](t, must(t, copying(from, to, c.flags...)...)); r.CopiedBytes != plan.MissingBytes || r.Copied != len(c.want) {
				t.Errorf("copied: %+v, planned were %d bytes", r, plan.MissingBytes)
			}
			if l := listIn(t, to); !slices.Equal(sorted(names(l.Snapshots)), sorted(c.want)) || len(l.Strays)+l.Foreign > 0 {
				t.Errorf("listed are %+v", l)
			}
			if r := decode[copied](t, must(t, copying(from, to, c.flags...)...)); r.Copied+r.Adopted > 0 || r.There != len(c.want) {
				t.Errorf("again: %+v", r)
			}
			checkRestored(t, source, to, false)
		})
	}
	t.Run("etcd on a copy", func(t *testing.T) {
		t.Parallel()
		to := to.in("live")
		must(t, copying(from, to)...)
		checkRestored(t, source, to, true)
	})
	t.Run("wrong", func(t *testing.T) { testWrongCopies(t, from, to.in("wrong")) })
}

// testWrongCopies makes mistakes, after which nothing is stored.
func testWrongCopies(t *testing.T, from, to place) {
	t.Parallel()
	nowhere := from
	nowhere.url = strings.Replace(from.url, "s3://bucket-", "s3://no-such-bucket-", 1)
	for name, c := range map[string]struct {
		from, to place
		flags    []string
		code     int
		says     []string
	}{
		"the keys of the destination":       {place{from.url, to.credentials}, to, nil, 1, []string{"source"}},
		"the keys of the source":            {from, place{to.url, from.credentials}, nil, 1, []string{"destination"}},
		"no such folder of keys":            {place{from.url, "/no/such/folder"}, to, nil, 1, []string{"/no/such/folder"}},
		"no such source":                    {nowhere, to, nil, 1, []string{"source", "does not exist"}},
		"an empty source":                   {from.in("empty"), to, nil, 7, []string{"empty", "no full snapshot is stored"}},
		"an unknown history":                {from, to, []string{"--lineage=x"}, 7, []string{"lineage x"}},
		"nothing at a time":                 {from, to, []string{"--parallel=0"}, 2, []string{"--parallel"}},
		"a negative bandwidth":              {from, to, []string{"--bandwidth=-1"}, 2, []string{"bandwidth"}},
		"no time":                           {from, to, []string{"--since=yesterday"}, 2, []string{"--since", "want for example"}},
		"the same store with another slash": {from, place{strings.Replace(from.url, "?", "/?", 1), from.credentials}, nil, 2, []string{"are the same"}},
	} {
		t.Run(name, func(t *testing.T) {
			ferry(t, copying(c.from, c.to, c.flags...)...).wantFailure(t, c.code, c.says...)
		})
	}
	if l := listIn(t, to); len(l.Snapshots)+len(l.Strays)+l.Foreign > 0 {
		t.Errorf("stored are %+v", l)
	}
}

func listIn(t *testing.T, p place) listing {
	t.Helper()
	return decode[listing](t, must(t, on(p, "list", "-o=json")...))
}

func names(ms []manifest) []string {
	var all []string
	for _, m := range ms {
		all = append(all, m.Name)
	}
	return all
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
