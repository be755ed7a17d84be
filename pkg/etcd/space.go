package etcd

import (
	"regexp"
	"strconv"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Space is what a member says of its database, and of the alarms of its cluster.
type Space struct {
	DBSize int64 // bytes on disk
	InUse  int64 // bytes of these that are in use; a defragmentation frees the others
	Quota  int64 // bytes that DBSize may reach before writes are refused; 0: not told, before etcd 3.6
	Alarms Alarms
}

// Free is how many bytes a defragmentation would free.
func (s Space) Free() int64 { return max(0, s.DBSize-s.InUse) }

// Alarms are those of a cluster that are raised.
type Alarms struct {
	NoSpace bool // a member's quota is exceeded: writes are refused
	Corrupt bool // members hold different data
	Fenced  bool // it is none: the cluster is fenced for a hand-over, see RaftFence
}

// alarmText finds an alarm in what a member says that is wrong: the text of an
// AlarmMember. Whether there are more spaces is deliberately uncertain.
var alarmText = regexp.MustCompile(`memberID:\s*(\d+)\s+alarm:\s*(NOSPACE|CORRUPT)`)

// spaceOf reads the alarms from the errors of a status. To ask for them would cost
// etcd a write.
func spaceOf(r *etcdserverpb.StatusResponse) Space {
	s := Space{DBSize: r.DbSize, InUse: r.DbSizeInUse, Quota: r.DbSizeQuota}
	for _, text := range r.Errors {
		m := alarmText.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		member, _ := strconv.ParseUint(m[1], 10, 64) // what is too large is no fence
		switch {
		case member>>generationBits == reservedMember:
			s.Alarms.Fenced = true
		case m[2] == etcdserverpb.AlarmType_NOSPACE.String():
			s.Alarms.NoSpace = true
		default:
			s.Alarms.Corrupt = true
		}
	}
	return s
}
