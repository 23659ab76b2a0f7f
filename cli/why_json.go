package cli

import (
	"strings"
	"time"

	"stint/events"
	"stint/projections"
)

// whyJSON is what `stint why --json` prints. Times are UTC; what does not apply is left out.
type whyJSON struct {
	Job        uint32         `json:"job"`   // the record the answer is of
	Label      string         `json:"label"` // as people name it: 81, 81_5, 81_[6-9]
	Name       string         `json:"name"`
	User       string         `json:"user"`
	State      string         `json:"state"`
	Reason     string         `json:"reason,omitempty"`
	ReasonText string         `json:"reason_text,omitempty"`
	Nodes      []string       `json:"nodes,omitempty"`
	Ended      *whyEnded      `json:"ended,omitempty"`
	Unfit      uint32         `json:"unfit_runs,omitempty"` // how often in a row a node could not start it
	Blockers   []whyBlocker   `json:"blockers,omitempty"`
	Start      string         `json:"expected_start,omitempty"`
	StartOn    string         `json:"expected_nodes,omitempty"`
	DependsOn  []whyDepends   `json:"depends_on,omitempty"`
	Ahead      []whyAhead     `json:"ahead,omitempty"` // the most urgent first, twenty at most
	AheadCount uint32         `json:"ahead_count"`
	Partitions []whyPartition `json:"partitions,omitempty"`
	StartsNow  string         `json:"starts_now_on,omitempty"`
	Remedies   []whyRemedy    `json:"remedies,omitempty"`
}

type whyEnded struct {
	ExitCode int32     `json:"exit_code"`
	Signal   int32     `json:"signal"`
	Said     []whySaid `json:"said,omitempty"` // what nodes had to say about the end
}

type whySaid struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

type whyBlocker struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Have   uint64 `json:"have"`
	Need   uint64 `json:"need"`
}

type whyDepends struct {
	Job   uint32 `json:"job"`
	State string `json:"state"`
}

type whyAhead struct {
	Label    string `json:"label"`
	Name     string `json:"name"`
	User     string `json:"user"`
	Priority uint32 `json:"priority"`
}

type whyPartition struct {
	Partition string        `json:"partition"`
	Nodes     []whyStanding `json:"nodes"`
}

type whyStanding struct {
	Count uint32 `json:"count"`
	What  string `json:"what"` // to be read after "nodes"
	Fits  bool   `json:"fits"`
	Names string `json:"names"`
	Text  string `json:"text,omitempty"`
}

type whyRemedy struct {
	Command string `json:"command"`
	Nodes   string `json:"nodes"`
}

// whyOf makes the JSON of an answer.
func whyOf(a *projections.AnswerWhy) *whyJSON {
	v := a.GetJob()
	j, o, x := v.GetJob(), v.GetOutcome(), a.GetExplanation()
	w := &whyJSON{
		Job: j.GetId(), Label: jobLabel(v), Name: j.GetSpec().GetName(), User: j.GetOwner().GetUser(), State: j.GetState().Word(), ReasonText: j.GetReasonText(),
		Nodes: j.GetAllocation().NodeNames(), Unfit: j.GetUnfitRuns(), AheadCount: a.GetAheadCount(), StartOn: o.GetNodes(), StartsNow: x.GetStartsNow(),
	}
	reason := j.GetReason()
	if reason == events.Reason_NONE && o != nil {
		reason, w.ReasonText = o.Reason, o.Text
	}
	if reason != events.Reason_NONE {
		w.Reason = reason.Word()
	}
	if j.GetState().Final() {
		w.Ended = &whyEnded{ExitCode: int32(j.GetExitCode()), Signal: int32(j.GetExitSignal())}
		for _, n := range j.GetNodes() {
			if n.Text != "" {
				w.Ended.Said = append(w.Ended.Said, whySaid{n.Node, n.Text})
			}
		}
	}
	for _, b := range o.GetBlockers() {
		w.Blockers = append(w.Blockers, whyBlocker{b.Reason.Word(), b.Text, b.Have, b.Need})
	}
	if at := o.GetStartUs(); at > 0 {
		w.Start = time.UnixMicro(at).UTC().Format(time.RFC3339)
	}
	for _, d := range j.GetDependencies() {
		w.DependsOn = append(w.DependsOn, whyDepends{d.GetDependency().GetJob(), strings.ToLower(d.State.String())})
	}
	for _, v := range a.GetAhead() {
		w.Ahead = append(w.Ahead, whyAhead{jobLabel(v), v.Job.GetSpec().GetName(), v.Job.GetOwner().GetUser(), uint32(v.Job.GetPriority())})
	}
	for _, p := range x.GetPartitions() {
		part := whyPartition{Partition: p.Partition}
		for _, n := range p.Nodes {
			part.Nodes = append(part.Nodes, whyStanding{n.Count, n.What, n.Fits, n.Names, n.Text})
		}
		w.Partitions = append(w.Partitions, part)
	}
	for _, r := range x.GetRemedies() {
		w.Remedies = append(w.Remedies, whyRemedy{r.Change, r.Nodes})
	}
	return w
}
