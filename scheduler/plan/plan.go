// Package plan says what another configuration would change, before anything does: which settings, nodes and partitions
// differ, and what would become of each job that runs or waits.
//
// It asks the code that would do it. The new configuration is put into a copy of the state as an administrator's intent, and
// the pass that would judge it is run: it takes the configuration over or refuses it, and decides about every job as it
// would in earnest. What differs from a pass over the state as it is, is what the configuration changes.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
	"stint/scheduler/cycle"
)

// Report is what a configuration would change. Lists are sorted: settings, nodes and partitions by name, jobs by id.
type Report struct {
	Seq        uint64   `json:"seq"`               // the state it was compared with
	ConfigSeq  uint64   `json:"config_seq"`        // the configuration in force, by its place in the log
	Refused    string   `json:"refused,omitempty"` // why it would not be taken over; empty: it would
	Settings   []Change `json:"settings"`
	Nodes      []Change `json:"nodes"`
	Partitions []Change `json:"partitions"`
	Jobs       []Job    `json:"jobs"`    // those whose fate differs
	Pending    int      `json:"pending"` // of all that wait: elements of arrays that have no record of their own count as one
	Running    int      `json:"running"`
}

// Same says that nothing would change.
func (r *Report) Same() bool {
	return r.Refused == "" && len(r.Settings)+len(r.Nodes)+len(r.Partitions)+len(r.Jobs) == 0
}

// Kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one setting, or nodes or a partition.
type Change struct {
	Name   string  `json:"name"` // of the setting or partition, or a hostlist of nodes that change alike
	Kind   string  `json:"kind"` // Added, Removed or Changed
	Fields []Field `json:"fields,omitempty"`
	Note   string  `json:"note,omitempty"` // what follows from it
}

// Field is what differs: Old is empty for what is added, New for what is removed.
type Field struct {
	Name string `json:"name,omitempty"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Job is a job that would fare otherwise.
type Job struct {
	ID     string `json:"id"` // as people write it: 7, 7_3, 7_[1-4]
	Number uint32 `json:"number"`
	User   string `json:"user"`
	State  string `json:"state"`
	Now    Fate   `json:"now"`
	Then   Fate   `json:"then"`
}

// Fate is what a pass makes of a job.
type Fate struct {
	Does    string `json:"does"`               // waits, starts, runs, is stopped, ends
	Reason  string `json:"reason,omitempty"`   // Slurm's word
	Text    string `json:"text,omitempty"`     // for people
	Nodes   string `json:"nodes,omitempty"`    // where it starts, or is planned to
	StartUs int64  `json:"start_us,omitempty"` // when it is expected to; 0: not known
}

// Compare says what next would change in a cluster at a time in microseconds. It uses c up: the configuration is folded
// into it as an intent of the administrator.
func Compare(c *projections.Cluster, next *events.Config, now int64) (*Report, error) {
	if c.ConfigSeq() == 0 {
		return nil, fmt.Errorf("this cluster has no configuration yet")
	}
	old := c.Config()
	r := &Report{Seq: c.Seq(), ConfigSeq: c.ConfigSeq()}
	r.Settings = settings(old, next)
	before := runs(c, now)
	body, err := next.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("packing the configuration: %w", err)
	}
	if err := fold(c, events.SubjectIntentHost("plan"), now, &events.IntentBatch{Intents: []*events.Intent{{
		Verb: events.Verb_CONFIGURE, Nonce: make([]byte, 16), Author: &events.Author{User: "root"}, Body: body,
	}}}); err != nil {
		return nil, err
	}
	facts, refused := takeover(c, c.Seq(), now)
	if refused != "" {
		r.Refused = refused
		return r, nil
	}
	if r.Nodes, err = nodes(c, old, next); err != nil {
		return nil, err
	}
	r.Partitions = partitions(c, old, next)
	if err := takenOver(c, facts, r.Nodes, now); err != nil {
		return nil, err
	}
	after := runs(c, now)
	r.jobs(c, before, after, next)
	return r, nil
}

// outlook is what a pass makes of every job.
type outlook struct {
	facts []*events.Fact
	fates map[uint32]Fate // of those the pass says something of
	tasks map[uint32]int  // of an array: how many of its waiting elements start
}

func runs(c *projections.Cluster, now int64) *outlook {
	facts, outcomes, _ := cycle.Run(c, cycle.Input{Now: now})
	o := &outlook{facts: facts, fates: map[uint32]Fate{}, tasks: map[uint32]int{}}
	for _, w := range outcomes {
		o.fates[w.Job] = Fate{Does: "waits", Reason: w.Reason.Word(), Text: w.Text, Nodes: w.Nodes, StartUs: w.StartUs}
	}
	for _, f := range facts {
		switch k := f.GetKind().(type) {
		case *events.Fact_Placed, *events.Fact_PlacedTogether:
			for _, p := range events.Placements(f) {
				if p.HasTask {
					o.tasks[p.Job]++
				}
				if _, known := o.fates[p.Job]; !known || !p.HasTask {
					o.fates[p.Job] = Fate{Does: "starts", Nodes: hostlist.Compress(p.Allocation.NodeNames()), StartUs: now}
				}
			}
		case *events.Fact_Stopping:
			o.fates[k.Stopping.Job] = Fate{Does: "is stopped", Text: k.Stopping.Text}
		case *events.Fact_Ended:
			if !k.Ended.HasTasks {
				o.fates[k.Ended.Job] = Fate{Does: "ends", Reason: k.Ended.State.Word()}
			}
		}
	}
	return o
}

// jobs compares the fates of all jobs.
func (r *Report) jobs(c *projections.Cluster, before, after *outlook, next *events.Config) {
	gone, parts := map[string]bool{}, map[string]bool{}
	for _, n := range r.Nodes {
		if n.Kind == Removed {
			names, _ := hostlist.Expand(n.Name, hostlist.MaxHosts)
			for _, name := range names {
				gone[name] = true
			}
		}
	}
	for _, p := range next.Partitions {
		parts[p.Name] = true
	}
	c.EachPending(func(j *projections.Job) bool {
		r.Pending++
		now, then := fate(before, j), fate(after, j)
		if !alike(now, then) {
			r.Jobs = append(r.Jobs, Job{ID: label(c, j), Number: j.Id, User: j.Owner.GetUser(), State: j.State.Word(), Now: now, Then: then})
		}
		return true
	})
	c.EachRunning(func(j *projections.Job) bool {
		r.Running++
		now, then := Fate{Does: "runs"}, Fate{Does: "runs"}
		if f, ok := before.fates[j.Id]; ok {
			now = f
		}
		if f, ok := after.fates[j.Id]; ok {
			then = f
		} else if text := remains(j, gone, parts); text != "" {
			then.Text = text
		}
		if now != then {
			r.Jobs = append(r.Jobs, Job{ID: label(c, j), Number: j.Id, User: j.Owner.GetUser(), State: j.State.Word(), Now: now, Then: then})
		}
		return true
	})
	slices.SortFunc(r.Jobs, func(a, b Job) int { return int(int64(a.Number) - int64(b.Number)) })
}

// remains says on what a running job goes on that is configured no more.
func remains(j *projections.Job, gone, parts map[string]bool) string {
	var names []string
	for _, n := range j.Nodes {
		if gone[n.Node] {
			names = append(names, n.Node)
		}
	}
	var text []string
	if len(names) > 0 {
		text = append(text, "to its end on "+hostlist.Compress(names)+", which would be no node of the cluster any more")
	}
	if p := j.GetPartition(); p != "" && !parts[p] {
		text = append(text, "to its end, though there would be no partition "+p)
	}
	return strings.Join(text, "; ")
}

// fate is what an outlook says of a job that waits. Of an array of which some start and some wait it says how many.
func fate(o *outlook, j *projections.Job) Fate {
	f, known := o.fates[j.Id]
	if !known {
		f = Fate{Does: "waits", Reason: j.Reason.Word()}
	}
	if n := o.tasks[j.Id]; n > 0 {
		if f.Does == "waits" {
			f.Text = fmt.Sprintf("%d of its tasks start", n)
		}
	}
	return f
}

// tolerance is how far an expected start may move without being worth a word.
const tolerance = 60 * 1_000_000

func alike(a, b Fate) bool {
	d := a.StartUs - b.StartUs
	return a.Does == b.Does && a.Reason == b.Reason && a.Text == b.Text && (a.StartUs == 0) == (b.StartUs == 0) && d < tolerance && d > -tolerance &&
		(a.Does != "starts" || a.Nodes == b.Nodes)
}
