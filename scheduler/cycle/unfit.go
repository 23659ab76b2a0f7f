package cycle

import (
	"strings"
	"unicode/utf8"

	"stint/events"
	"stint/projections"
	"stint/scheduler/admit"
)

// drainUnfit takes nodes out of service that could not start a run by their own fault, before anything else is placed there:
// an idle node that fails whatever it is given would be given the whole queue. An administrator brings them back.
func (p *pass) drainUnfit() {
	var unfit []*projections.Node
	p.c.EachNode(func(n *projections.Node) bool {
		if n.Unfit != "" && !n.Drain && !n.Down && !n.Fail {
			unfit = append(unfit, n)
		}
		return true
	})
	for _, n := range unfit {
		p.say(&events.Fact{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{
			Node: n.Name, Order: events.NodeOrder_NODE_DRAIN, Reason: sentence(n.Unfit), Own: true,
		}}})
	}
}

// maxReason is how many bytes of what a node or a failure said become a reason.
const maxReason = 200

// sentence makes one line of bounded length of a text from elsewhere.
func sentence(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// maxBatchRequeue is how many launches in a row nodes may fail before a job is held, unless the site says otherwise.
const maxBatchRequeue = 5

// startAgain sends a job that a node could not start back into the queue, at once: nothing of it has run, and the node is out of
// service. One that fails wherever it goes is held.
func (p *pass) startAgain(j *projections.Job) *events.Requeued {
	r := admit.Requeued(j, p.now, false, p.now)
	r.BeginUs, r.Reason = 0, events.Reason_NONE
	most := p.c.Config().GetMaxBatchRequeue()
	if most == 0 {
		most = maxBatchRequeue
	}
	if j.UnfitRuns >= most {
		r.Hold, r.Priority, r.Reason = events.HoldKind_HELD_ADMIN, 0, events.Reason_JOB_HOLD_MAX_REQUEUE
	}
	return r
}
