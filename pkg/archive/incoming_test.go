package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

func TestAnnounce(t *testing.T) {
	a := archive.New(mem.New())
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("delta-%016d-%016d-20261120T231600Z.ev.zst.age", i, i))
	}
	for range 2 { // again changes nothing
		if made, err := a.Announce(t.Context(), "elsewhere", all); err != nil || len(made) != 3 {
			t.Fatalf("%d announcements, %v", len(made), err)
		}
	}
	l := list(t, a)
	if len(l.Announcements) != 3 || l.Foreign+len(l.Strays) > 0 || l.Announcements[0].From != "elsewhere" {
		t.Errorf("listed are %d announcements, %d foreign objects and %d strays", len(l.Announcements), l.Foreign, len(l.Strays))
	}
	if slices.ContainsFunc(all, func(name string) bool { return !l.Incoming(name) }) || l.Incoming(all[0]+"x") {
		t.Error("not what was announced")
	}
	for _, made := range l.Announcements {
		if err := a.Withdraw(t.Context(), made); err != nil {
			t.Error(err)
		}
	}
	if l := list(t, a); len(l.Announcements) > 0 {
		t.Errorf("%d announcements stay", len(l.Announcements))
	}
}

// TestMalformedAnnouncements: what is not understood announces nothing.
func TestMalformedAnnouncements(t *testing.T) {
	const name = "full-0000000000000001-20261120T231600Z.db.zst"
	for what, text := range map[string]string{
		"no JSON":      "{",
		"newer schema": `{"schemaVersion":2,"names":["` + name + `"]}`,
		"too large":    `{"schemaVersion":1,"names":["` + name + `"]}` + strings.Repeat(" ", 64<<10),
	} {
		t.Run(what, func(t *testing.T) {
			s := mem.New()
			for object, content := range map[string]string{"snapshots/" + name: "x", "snapshots/incoming-1.json": text} {
				if _, err := s.Create(t.Context(), object, strings.NewReader(content)); err != nil {
					t.Fatal(err)
				}
			}
			if l := list(t, archive.New(s)); len(l.Announcements) > 0 || len(l.Strays) != 1 || l.Incoming(name) {
				t.Errorf("listed are %+v", l)
			}
		})
	}
}
