package projections

import (
	"sort"

	"stint/events"
)

// Why a message, an intent or a fact is void: it did not fit the state it met. Sentences are fixed, so that counting them
// takes bounded room whatever authors write. events.VoidSubject and events.VoidBytes are the two others.
const (
	voidEmpty         = "message without content"
	voidKind          = "fact of a kind that this version does not know"
	voidOldSeq        = "message that was folded before"
	voidTermEmpty     = "term without a nonce"
	voidTermAgain     = "term that is in force already"
	voidCycleTerm     = "cycle of a term that is not the latest"
	voidCycleNumber   = "cycle message out of its numbering"
	voidNoIntent      = "fact about an intent that waits for no verdict"
	voidNotThatID     = "admission under an id that the intent did not take"
	voidIDInUse       = "admission under an id that is in use"
	voidNoSpec        = "admission without a specification or owner"
	voidNoJob         = "fact about a job that is not hot"
	voidNoTrigger     = "fact about a trigger that is not set"
	voidRun           = "fact about another run of the job"
	voidState         = "fact that the job's state does not allow"
	voidTasks         = "fact about tasks that are not pending"
	voidEndState      = "end without a final state"
	voidStopping      = "stop of a run that is told to end already"
	voidUnreported    = "requeue of a run that some node still holds"
	voidNoIDs         = "no job ids left"
	voidNoNode        = "message or fact about a node that is not configured"
	voidNodeState     = "fact that the node's state does not allow"
	voidConfig        = "configuration that does not expand"
	voidPartition     = "partition that is there already, or is not there"
	voidZombie        = "message of an executor that is not the node's latest"
	voidNodeNumber    = "node message that was told before"
	voidBoot          = "message of another boot of the node"
	voidNotThere      = "fact about a run that has no share of the node"
	voidReported      = "end of a run that the node has reported already"
	voidNonce         = "intent without a 16 byte nonce"
	voidTold          = "intent that was told before"
	voidVerb          = "intent with an unknown verb"
	voidIDs           = "intent that takes a wrong number of ids"
	voidAuthor        = "intent without an author, or by another author than the subject's"
	voidUnvouched     = "intent of a user for whose user id no host vouches: submit through the host's agent"
	voidNotFeasible   = "placement that the state refuses"
	voidNothingWanted = "change without content"
	voidPolicy        = "administrative act that the state refuses"
)

// Verdict is what the fold made of one message.
type Verdict struct {
	Void    []VoidFact // what did not fit, in order
	Changed bool       // something else than counters changed
}

// VoidFact is one intent or fact that did not fit the state; Index counts within the message, -1 is the message itself.
type VoidFact struct {
	Index int
	Why   string
	More  string // of a refused placement: the refusal in words
}

func (c *Cluster) void(index int, why string) { c.voidMore(index, why, "") }

func (c *Cluster) voidMore(index int, why, more string) {
	c.verdict.Void = append(c.verdict.Void, VoidFact{index, why, more})
	i := sort.Search(len(c.voids), func(i int) bool { return c.voids[i].Why >= why })
	if i < len(c.voids) && c.voids[i].Why == why {
		if !c.voidsOwn {
			c.voids, c.voidsOwn = append([]*VoidCount(nil), c.voids...), true
		}
		c.voids[i] = &VoidCount{Why: why, Count: c.voids[i].Count + 1, LastSeq: c.seq}
		return
	}
	grown := make([]*VoidCount, 0, len(c.voids)+1)
	grown = append(append(append(grown, c.voids[:i]...), &VoidCount{Why: why, Count: 1, LastSeq: c.seq}), c.voids[i:]...)
	c.voids, c.voidsOwn = grown, true
}

// Change is one record that a message changed, in the order in which it happened. Exactly one of the pairs is used.
type Change struct {
	Before, After         *Job  // Before nil: new; After nil: left hot state
	NodeBefore, NodeAfter *Node // likewise
	Fact                  *events.Fact
	NodeFact              *events.NodeFact // the fact that did it; neither: time passed, or the message as such
	At                    int64            // when it happened: the author's time, microseconds
	Seq                   uint64
	Index                 int // of the fact in its message
}
