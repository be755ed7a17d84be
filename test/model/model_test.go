package model

import (
	"os"
	"strings"
	"testing"
)

const (
	handover = "handover.pml"
	members  = "members.pml"
)

// configurations are what is searched completely: no property may break.
var configurations = []search{
	{name: "members", model: members, defines: "-DL=1 -DG=1 -DSLOW=0 -DWRITES=1 -DABORTS=1"},
	{name: "members-progress", model: members, defines: "-DLIVE -DL=1 -DG=1 -DSLOW=0 -DWRITES=0", fair: true},
	{name: "back", model: handover, defines: "-DBACK -DSLOW=0 -DWRITES=1"},
	{name: "pause", model: handover, defines: "-DPAUSES=2 -DCRASHES=1 -DFAULTS=1"},
	{name: "takeback", model: handover, defines: "-DTAKEBACKS=1 -DAGAIN -DCOPYCRASHES=1 -DFAULTS=1"},
	{name: "progress", model: handover, defines: "-DLIVE -DSLOW=0 -DWRITES=0 -DCRASHES=1 -DFAULTS=1 -DCOPYCRASHES=1", fair: true},
	{name: "good", model: handover, defines: "-DFAULTS=1 -DCRASHES=1 -DINITIATES=1 -DFAILEDFINALS=1"},
	{name: "two", model: handover, defines: "-DTWO -DSLOW=0 -DWRITES=1 -DTAKEBACKS=1 -DFAULTS=1"},
	{name: "members-pause", model: members, defines: "-DL=1 -DWRITES=1 -DABORTS=0 -DPAUSES=1"},
	{name: "hibernate", model: handover, defines: "-DHIBERNATE -DSTOPS=1 -DFAULTS=1 -DCRASHES=1"},
	{name: "byhand", model: handover, defines: "-DBYHAND -DTAKEBACKS=1"},
	{name: "wrapper", model: handover, defines: "-DWRAPPER -DPAUSES=1 -DCRASHES=1"},
}

// deeper configurations take too long for every day.
var deeper = []search{
	{name: "good", model: handover, defines: "-DFAULTS=2 -DCRASHES=1 -DCOPYCRASHES=1 -DINITIATES=1 -DFAILEDFINALS=1"},
	{name: "takeback", model: handover, defines: "-DTAKEBACKS=1 -DAGAIN -DCOPYCRASHES=1 -DFAULTS=1 -DINITIATES=1"},
	{name: "two", model: handover, defines: "-DTWO -DSLOW=0 -DTAKEBACKS=1 -DFAULTS=1"},
	{name: "back", model: handover, defines: "-DBACK -DSLOW=0"},
	{name: "members", model: members, defines: "-DSLOW=0 -DWRITES=1 -DABORTS=1"},
}

// mutant is a known mistake, and the property that its shortest story breaks.
type mutant struct {
	search
	breaks string
}

var mutants = []mutant{
	// The issue's own.
	{search{name: "W=L", model: handover, defines: "-DW_IS_L"}, "I1_not_the_owner_acknowledges"},
	{search{name: "gate not bound to the lease", model: handover, defines: "-DGATE_UNBOUND -DPAUSES=1 -DSLOW=0"}, "I1_not_the_owner_acknowledges"},
	{search{name: "only etcd killed", model: handover, defines: "-DONLY_ETCD"}, "I2_lost_by_decision_of_source"},
	{search{name: "no watchdog", model: handover, defines: "-DNO_WATCHDOG -DPAUSES=1 -DSLOW=0"}, "I1_not_the_owner_acknowledges"},
	{search{name: "unconditional writes", model: handover, defines: "-DUNCONDITIONAL -DTWO -DSLOW=0 -DWRITES=1"}, "I4_decided_twice"},
	{search{name: "the GEP", model: handover, defines: "-DGEP"}, "I2_lost_by_decision_of_source"},
	{search{name: "the GEP's order behind the gate", model: handover, defines: "-DGEP_ORDER"}, "I2_lost_by_decision_of_source"},
	// Others.
	{search{name: "W at the bound", model: handover, defines: "-DW_AT_BOUND -DPAUSES=1"}, "I1_not_the_owner_acknowledges"},
	{search{name: "published before the kill", model: handover, defines: "-DPUBLISH_EARLY"}, "I2_lost_by_decision_of_source"},
	{search{name: "lease counted from the answer", model: handover, defines: "-DLEASE_FROM_ANSWER"}, "I1_not_the_owner_acknowledges"},
	{search{name: "a failed read renews", model: handover, defines: "-DFAILURE_RENEWS"}, "I1_not_the_owner_acknowledges"},
	{search{name: "passed gates forgotten", model: handover, defines: "-DGATE_FORGOTTEN -DCRASHES=1 -DSLOW=0"}, "I2_lost_without_lossy"},
	{search{name: "watchdog sees only etcd", model: handover, defines: "-DWRAPPER -DONLY_ETCD_IS_SEEN -DCRASHES=1 -DSLOW=0"}, "I1_not_the_owner_acknowledges"},
	{search{name: "no lock", model: handover, defines: "-DBYHAND -DNO_LOCK"}, "I2_lost_by_decision_of_source"},
	{search{name: "let in late", model: handover, defines: "-DBYHAND -DLET_IN_LATE -DSLOW=0"}, "I1_not_the_owner_acknowledges"},
	{search{name: "Held after the first read", model: handover, defines: "-DHIBERNATE -DHELD_LATE -DSLOW=0 -DWRITES=1"}, "I2_lost_without_lossy"},
	{search{name: "Released not revoked", model: handover, defines: "-DHIBERNATE -DHOLD_CHANGES_NOTHING -DSTOPS=1 -DFAULTS=1 -DSLOW=0 -DWRITES=1"}, "I2_lost_without_lossy"},
	{search{name: "adopted before Done", model: handover, defines: "-DADOPT_BEFORE_DONE"}, "I1_not_the_owner_acknowledges"},
	{search{name: "adopted after Done", model: handover, defines: "-DADOPT_AFTER_DONE"}, "I5_nothing_to_serve_at_commit"},
	{search{name: "old disk let in", model: handover, defines: "-DBACK -DSTALE_DISK -DSLOW=0"}, "I2_acknowledged_write_is_lost"},
	{search{name: "final of an old disk", model: handover, defines: "-DBACK -DUNCHECKED_DISK -DSLOW=0 -DWRITES=1"}, "I2_lost_by_decision_of_source"},
	{search{name: "never forced", model: handover, defines: "-DLIVE -DNEVER_FORCED -DSLOW=0 -DWRITES=0", fair: true}, "acceptance cycle"},
	{search{name: "snapshot of a cluster that is not frozen", model: members, defines: "-DNOT_FROZEN"}, "I2_lost_by_decision_of_source"},
	{search{name: "thaws any generation", model: members, defines: "-DTHAW_ANY"}, "I1_two_deployments_serve"},
	{search{name: "frozen for ever", model: members, defines: "-DFROZEN_FOREVER -DSLOW=0 -DWRITES=0"}, "I1_two_deployments_serve"},
	{search{name: "thaws once", model: members, defines: "-DLIVE -DTHAW_ONCE -DL=1 -DG=1 -DSLOW=0 -DWRITES=0", fair: true}, "acceptance cycle"},
	// No mistake of the protocol's: the assumption of I1 that a machine can break.
	{search{name: "the machine sleeps", model: handover, defines: "-DMACHINE_SLEEPS -DPAUSES=1 -DSLOW=0"}, "I1_not_the_owner_acknowledges"},
}

func TestConfigurations(t *testing.T) {
	all := configurations
	if os.Getenv("FERRY_MODEL") == "deep" {
		all = deeper
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := c.run(t)
			t.Log(r)
			if r.broken != "" {
				t.Errorf("%s does not hold", r.broken)
			}
		})
	}
}

// A model that cannot move breaks nothing either: with WITNESS it must be possible
// that a client is served by the destination, in back that the source serves again.
func TestConfigurationsHandOver(t *testing.T) {
	for _, c := range configurations {
		if c.fair { // these have to by what they claim
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.defines, c.hasty = c.defines+" -DWITNESS", true
			if r := c.run(t); r.broken != "handedOver" {
				t.Errorf("%q is broken, and no client was served by the destination", r.broken)
			}
		})
	}
}

func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.shortest = !m.fair
			r := m.run(t)
			t.Log(r.broken, r)
			if r.broken != m.breaks {
				t.Errorf("%q is broken, want %q", r.broken, m.breaks)
			}
		})
	}
}

func TestReadmeNamesAll(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, c := range configurations {
		if !strings.Contains(text, "| "+c.name+" | `"+strings.ReplaceAll(c.defines, "-D", "")+"` |") {
			t.Errorf("README.md does not name configuration %s with its bounds", c.name)
		}
	}
	for _, m := range mutants {
		if !strings.Contains(text, "| "+m.name+" | "+m.breaks+" |") {
			t.Errorf("README.md does not name mutant %q and what it breaks, %s", m.name, m.breaks)
		}
	}
}

// The parser is strict: these outputs prove nothing, or that a property is broken.
func TestUnderstand(t *testing.T) {
	const good = `
(Spin Version 6.5.2 -- 6 December 2019)
	+ Partial Order Reduction

Full statespace search for:
	never claim         	- (none specified)
	assertion violations	+
	cycle checks       	- (disabled by -DSAFETY)
	invalid end states	+

State-vector 188 byte, depth reached 435, errors: 0
    97799 states, stored
   396471 states, matched
   494270 transitions (= stored+matched)
  246.237	total actual memory usage
`
	if r, err := understand(good); err != nil || r.states != 97799 || r.depth != 435 || r.transitions != 494270 || r.broken != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, change := range map[string][2]string{
		"interrupted":  {"\nFull", "\nWarning: Search not completed\nFull"},
		"too deep":     {"\nFull", "\nerror: max search depth too small\nFull"},
		"memory":       {"\nFull", "\npan: reached -DMEMLIM bound\nFull"},
		"bit-state":    {"Full statespace", "Bit statespace"},
		"no ends":      {"invalid end states	+", "invalid end states	-"},
		"no asserts":   {"assertion violations	+", "assertion violations	-"},
		"no counts":    {"97799 states", "0 states"},
		"nothing":      {good, ""},
		"unknown fail": {"errors: 0", "errors: 1"},
	} {
		if r, err := understand(strings.Replace(good, change[0], change[1], 1)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	broken := "pan:1: assertion violated  !(I4_decided_twice) (at depth 7)\n" + strings.Replace(good, "errors: 0", "errors: 1", 1)
	if r, err := understand(broken); err != nil || r.broken != "I4_decided_twice" {
		t.Errorf("%+v, %v", r, err)
	}
}
