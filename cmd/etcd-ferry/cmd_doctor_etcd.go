package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
)

// testedEtcds are the versions of etcd that the tests run.
var testedEtcds = []string{"3.5", "3.6", "3.7"}

// examineEtcd looks at one member.
func (c *doctorCommand) examineEtcd(ctx context.Context, endpoint string) []finding {
	subject := "etcd " + endpoint + ": "
	config := c.etcd.config
	config.Endpoints = []string{endpoint}
	client, err := etcd.Dial(ctx, config)
	if err != nil {
		return []finding{failed(subject+"reach", err)}
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return []finding{
			failed(subject+"reach", c.etcd.explain(ctx, err)),
			unchecked(subject+"snapshot", "comes when etcd answers"),
		}
	}
	return []finding{
		fine(subject+"reach", fmt.Sprintf("it reads at revision %d", status.Revision)),
		checkEtcdVersion(subject+"version", status.Version),
		checkSpace(subject+"space", status.Space),
		judged(subject+"snapshot", "a stream was opened", tryStream(ctx, client)),
	}
}

func checkEtcdVersion(check, version string) finding {
	if slices.ContainsFunc(testedEtcds, func(tested string) bool { return strings.HasPrefix(version, tested+".") }) {
		return fine(check, version)
	}
	return warning(check, fmt.Sprintf("etcd %s: etcd-ferry was tested with %s only, rehearse a restore: etcd-ferry verify", version, list(testedEtcds)))
}

// tryStream opens a snapshot, which access control allows to the role root only,
// and closes it after its first piece.
func tryStream(ctx context.Context, client *etcd.Client) error {
	stream, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	_, err = stream.Read(make([]byte, 1))
	return errors.Join(err, stream.Close())
}

// lowRoom is the share of the quota from which on there is a warning.
const lowRoom = 0.8

// checkSpace looks for alarms, and for a quota that is nearly reached.
func checkSpace(check string, s etcd.Space) finding {
	detail := fmt.Sprintf("database of %s, %s in use", bytesize(s.DBSize), bytesize(s.InUse))
	if s.Quota > 0 {
		detail += fmt.Sprintf(", quota %s", bytesize(s.Quota))
	} else {
		detail += ", the quota is not told before etcd 3.6"
	}
	switch {
	case s.Alarms.Corrupt:
		return failed(check, errors.New("alarm CORRUPT: members hold different data: replace the member that differs, see etcdctl endpoint hashkv --cluster"))
	case s.Alarms.NoSpace:
		return failed(check, fmt.Errorf("alarm NOSPACE, etcd refuses writes: compact, defragment, then etcdctl alarm disarm; %s", detail))
	case s.Alarms.Fenced:
		return warning(check, "the cluster is fenced for a hand-over and refuses writes; "+detail)
	case s.Quota > 0 && float64(s.DBSize) > lowRoom*float64(s.Quota):
		return warning(check, "the quota is nearly reached: compact and defragment, or raise --quota-backend-bytes of etcd; "+detail)
	}
	return fine(check, detail)
}
