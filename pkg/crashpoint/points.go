package crashpoint

// Variable is the environment variable that names the folder in which points are
// armed. Those that begin with ETCD_FERRY_ are flags.
const Variable = "FERRY_CRASH"

// Point is a place in the code.
type Point string

// Of the source of a hand-over: its fence, the final snapshot, the decision.
const (
	FenceBegun    Point = "server.fenceBegun"    // the fence is written down, etcd runs still
	Fenced        Point = "server.fenced"        // etcd has ended and its data is locked
	Frozen        Point = "server.frozen"        // the whole cluster refuses writes
	BeforeUpload  Point = "server.beforeUpload"  // nothing of the final snapshot is stored
	AfterUpload   Point = "server.afterUpload"   // its object is stored and was read back, its manifest is not
	FinalStored   Point = "server.finalStored"   // it counts, and nobody was told
	BeforePublish Point = "server.beforePublish" // the same, right before the swap
	Published     Point = "server.published"     // it is decided, this process does not know yet
	LateStored    Point = "server.lateStored"    // what a forced destination lacks is filed, that is not written down
)

// Of the destination: claim, copy, decision without the source, commit, and what
// takes its own container into use.
const (
	BeforeClaim     Point = "copier.beforeClaim"     // all was looked at, nothing is written
	Claimed         Point = "copier.claimed"         // the source will fence itself, nothing is in one's own container
	AdoptionBegun   Point = "copier.adoptionBegun"   // no server may begin in one's own container
	CopyUploaded    Point = "copier.copyUploaded"    // an object was copied and read back, its manifest was not
	CopyStored      Point = "copier.copyStored"      // one copy counts
	BeforeForce     Point = "copier.beforeForce"     // all that is to be named is copied and checked
	Decided         Point = "copier.decided"         // this side has decided
	BeforeAdopt     Point = "copier.beforeAdopt"     // the whole set is copied
	AdoptionWritten Point = "copier.adoptionWritten" // what is adopted is said, the swap to Done is not made
	Committed       Point = "copier.committed"       // it is Done, nothing of it counts in one's own container
	Adopted         Point = "copier.adopted"         // one's own object says so
	Held            Point = "copier.ownerWritten"    // owner.json too
	Settled         Point = "copier.settled"         // a server may begin, this process has not said that it is done
)

// Of a backup: full and delta snapshots, and pruning.
const (
	Uploading       Point = "archive.uploading"       // all bytes of a full are on their way, their end is not
	FullUploaded    Point = "archive.fullUploaded"    // object without manifest
	FullStored      Point = "snapshotter.fullStored"  // it counts, the deltas before it are the line still
	DeltaSealed     Point = "snapshotter.deltaSealed" // taken from the watch, nothing is stored
	DeltaUploaded   Point = "archive.deltaUploaded"   // object without manifest
	DeltaStored     Point = "snapshotter.deltaStored" // it counts, the next one has not begun
	PruneBegun      Point = "snapshotter.pruneBegun"  // it is settled what goes
	ManifestRemoved Point = "archive.manifestRemoved" // an object without manifest is left
	Pruned          Point = "snapshotter.pruned"      // one snapshot has gone, others are to go
)

// Of a restore.
const (
	FullFetched Point = "restorer.fullFetched" // the database of the full is staged
	Built       Point = "restorer.built"       // the data dir is whole, beside the old one
	MovedAside  Point = "restorer.movedAside"  // the old one has gone, the new one has no name yet
	Placed      Point = "restorer.placed"      // the new one is there, the staging folder too
)
