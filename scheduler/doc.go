// Package scheduler is the controller: the process that holds a fold of the log, answers questions from it and, while it
// has the term, decides.
//
// The ideal is a function: state in, decisions out, decisions appended, state again. What stands around it, and why:
//
//   - One goroutine owns the fold (loop.go). Everything else, answers included, reads immutable views of it, so that a
//     reader never holds the leader.
//   - Whether this controller leads is not a flag: it leads while the term in its own fold is the one it appended
//     (lead.go). The lease of the bus only spares rivals the attempt. A leader that lost its lease leads on until it
//     folds another's term; one whose append is refused learns so from the log.
//   - Deciding and appending alternate: a message of decisions is appended with the condition that nobody wrote on
//     ev.sched since the last message folded, and nothing is decided before it has come back through the fold. While the
//     bus stalls, the append stalls, and with it every decision; the term stays.
//   - Acting (act.go) follows the fold: nodes are nudged, the feed of job states goes on, blobs of purged jobs are
//     erased. All of it is derived from changes of state, idempotent, and may be lost: nodes ask on their own, the feed
//     is resumed from its own last message.
//   - What is not in the log and yet decides, the silence of nodes (silence.go), is written into the cycle that used it.
//   - Snapshots (snapshot.go) are a cache. Deleting all of them changes nothing but time.
//   - The loop is watched (watch.go): a cycle that does not end, and work that waits while nothing is decided, are
//     reported.
package scheduler
