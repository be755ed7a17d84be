// Package snapshotter backs up a running etcd.
//
// Two steps do the work, and everything else calls them: Full streams the whole
// database into the archive, Delta stores what has changed since the last one.
// Run is loops around them.
//
// Between the steps a follower reads etcd's event stream and packs it as it
// arrives, so that memory holds compressed bytes. Delta asks etcd for its
// revision, waits until the follower has come so far, seals what is packed and
// stores it. A sealed delta is kept until it is stored: every try has the same
// name and the same bytes. Meanwhile the follower packs the next one, up to
// DeltaLimit bytes; then it stops reading and etcd waits, holding nothing but a
// position. Nothing is lost as long as etcd has not compacted it.
//
// # When the history does not go on
//
// A line is a stretch of history that one lineage names. It goes on as long as
// the cluster id stays, and the revision and the raft index do not decrease.
// Otherwise the data dir was replaced, and a new lineage begins with a full.
// Inside a line a full is taken at once if there is no base yet, if etcd has
// compacted the next revision, if users or roles have changed (no event tells
// how), or if the deltas since the last full have outgrown their share of it.
//
// # Not promised
//
// A replaced data dir with the same cluster id, a higher revision and a higher
// raft index is not noticed; restorer makes a new cluster id for this reason.
// A lease id that is revoked and granted again within one delta keeps its first
// TTL. Two snapshotters of one etcd overlap, which costs storage; if both begin
// on an empty archive at the same moment they make two lineages, of which a
// restore takes the one that was written to last. Who may write at all is
// decided above this package, by the end of the context.
package snapshotter
