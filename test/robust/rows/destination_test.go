package rows

import (
	"testing"

	"github.com/etcd-ferry/etcd-ferry/server"
)

// TestDestinationCreatedWithItsCopy: what takes over is created all at once. Either
// its server waits for the copy, or the copy finds it in use and leaves the source
// alone; it never serves another history than the one handed over, also not after
// a restart.
func TestDestinationCreatedWithItsCopy(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	onA := writeTo(t, a)
	onA.more(t, 300)
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := a.copyTo("b", b.Store)
	b.start()
	<-copying.process.Ended()
	if copying.cmd.ProcessState.ExitCode() == conflict {
		a.until(server.Owner)
		onA.more(t, 300)
		onA.stop()
		onA.wantKept(t, a)
		return
	}
	copying.want(0)
	b.until(server.Owner)
	onB := writeTo(t, b.ready())
	onB.more(t, 300)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	onB.stop()
	b.crash()
	b.start()
	b.ready()
	onB.wantKept(t, b)
	a.wantDown()
}

// conflict is an exit code.
const conflict = 3
