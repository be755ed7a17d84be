package copier_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func at(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }

func TestSelection(t *testing.T) {
	forked := []string{ // at minutes 0 to 9
		"full 10 of b", "delta 11-20 of b",
		"full 100", "delta 101-110", "full 110", "delta 111-120", "delta 115-118", "full 120", "delta 121-130", "delta 131-140",
	}
	rest := strings.Join(forked[2:], ", ")
	for name, test := range map[string]struct {
		selection copier.Selection
		want      string
	}{
		"everything":                {copier.Selection{}, strings.Join(forked, ", ")},
		"latest":                    {copier.Selection{Latest: true}, "full 120, delta 121-130, delta 131-140"},
		"latest of a lineage":       {copier.Selection{Latest: true, Lineage: "b"}, "full 10 of b, delta 11-20 of b"},
		"a lineage":                 {copier.Selection{Lineage: "b"}, "full 10 of b, delta 11-20 of b"},
		"another lineage":           {copier.Selection{Lineage: "a"}, rest},
		"since before all":          {copier.Selection{Since: at(-5)}, strings.Join(forked, ", ")},
		"since the end of a fork":   {copier.Selection{Since: at(1)}, strings.Join(forked, ", ")},
		"since after a fork":        {copier.Selection{Since: at(2)}, rest},
		"since a full":              {copier.Selection{Since: at(4)}, "full 110, delta 111-120, delta 115-118, full 120, delta 121-130, delta 131-140"},
		"since between":             {copier.Selection{Since: at(6)}, "full 110, delta 111-120, delta 115-118, full 120, delta 121-130, delta 131-140"},
		"since after all":           {copier.Selection{Since: at(99)}, "full 120, delta 121-130, delta 131-140"},
		"since of a lineage, after": {copier.Selection{Since: at(99), Lineage: "b"}, "full 10 of b, delta 11-20 of b"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := mem.New(), mem.New()
			fill(t, archive.New(from), forked...)
			c := newCopier(from, to)
			c.Selection = test.selection
			r := copyAll(t, c)
			if got := listed(t, to); got != test.want || len(r.LeftOut) > 0 {
				t.Errorf("copied are %s, want %s; left out %+v", got, test.want, r.LeftOut)
			}
		})
	}
}

func TestSelectionOfNothing(t *testing.T) {
	from := mem.New()
	fill(t, archive.New(from), everyday...)
	for _, latest := range []bool{false, true} {
		c := newCopier(from, mem.New())
		c.Selection = copier.Selection{Lineage: "unknown", Latest: latest}
		if _, err := c.Plan(t.Context()); !errors.Is(err, snapshot.ErrNothing) {
			t.Errorf("latest %t: got %v", latest, err)
		}
	}
}

func TestLatestRefusesAGap(t *testing.T) {
	from := mem.New()
	fill(t, archive.New(from), "full 100", "delta 101-110", "delta 121-130")
	c := newCopier(from, mem.New())
	c.Selection.Latest = true
	if _, err := c.Plan(t.Context()); !errors.Is(err, snapshot.ErrGap) {
		t.Errorf("got %v", err)
	}
}

// TestLatestMindsOnlyWhatLeadsFurther damages one manifest at a time. Without
// full 130 the chain before it leads as far.
func TestLatestMindsOnlyWhatLeadsFurther(t *testing.T) {
	for i, loses := range []bool{false, false, false, false, false, true, true} {
		from, to := mem.New(), mem.New()
		ms := fill(t, archive.New(from), everyday...)
		name := "snapshots/" + ms[i].Name + ".json"
		manifest := objects(t, from)[name]
		manifest[10] ^= 1
		put(t, from, name, manifest)
		c := newCopier(from, to)
		c.Selection.Latest = true
		p, err := c.Plan(t.Context())
		if err == nil {
			err = p.Err()
		}
		if (err != nil) != loses {
			t.Errorf("%s damaged: %v", short(ms[i]), err)
		}
	}
}

func TestSinceMindsOnlyYoungDamage(t *testing.T) {
	for i := range everyday {
		from := mem.New()
		ms := fill(t, archive.New(from), everyday...)
		name := "snapshots/" + ms[i].Name + ".json"
		manifest := objects(t, from)[name]
		manifest[10] ^= 1
		put(t, from, name, manifest)
		c := newCopier(from, mem.New())
		c.Selection.Since = ms[4].Time
		if err := plan(t, c).Err(); (err != nil) != (i >= 4) {
			t.Errorf("%s damaged: %v", short(ms[i]), err)
		}
	}
}
