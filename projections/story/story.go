// Package story tells what a message of the log says, for people: who did what, when and why. It reads messages only, so the
// same words come out for one job, for the whole log and while following it.
package story

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/ledger/rows"
)

// Names knows how people call what the log numbers. Both return something readable for what they do not know.
type Names interface {
	Label(job uint32) string // 17, or 81_5 for a task of an array
	User(uid uint32) string
}

// Numbers is Names without any knowledge.
type Numbers struct{}

// Label is the job's number.
func (Numbers) Label(job uint32) string { return fmt.Sprint(job) }

// User is root, or the uid.
func (Numbers) User(uid uint32) string {
	if uid == 0 {
		return "root"
	}
	return fmt.Sprintf("uid %d", uid)
}

// Tell returns the lines of one message in the order of its facts; Index is the fact's or intent's place in it, and lines of
// the message itself have the index Whole.
func Tell(e *events.Event, names Names) []*rows.StoryLine {
	t := &teller{e: e, names: names}
	switch {
	case e.Void != "":
		t.line(Whole, "unreadable", writer(e), e.Void, "")
	case e.Intents != nil:
		for i, intent := range e.Intents.Intents {
			t.intent(i, intent)
		}
	case e.Sched.GetTerm() != nil:
		term := e.Sched.GetTerm()
		t.at = term.NowUs
		t.line(Whole, "term", term.Controller, fmt.Sprintf("leads from here on (build %s, rules %d, decider %d)", term.Build, term.Rules, term.Decider), "")
	case e.Sched.GetCycle() != nil:
		t.at = e.Sched.GetCycle().NowUs
		for i, f := range e.Sched.GetCycle().Facts {
			t.fact(i, f)
		}
	case e.Node != nil:
		t.at = e.Node.NowUs
		for i, f := range e.Node.Facts {
			t.nodeFact(i, f)
		}
	case e.Share != nil:
		t.line(Whole, "shares", "ledger", fmt.Sprintf("%d fairshare factors as of %d", len(e.Share.Factors), e.Share.AsOf), "")
	}
	return t.lines
}

// Nothing is the line of a message that Tell has nothing to tell of.
func Nothing(e *events.Event) *rows.StoryLine {
	t := &teller{e: e}
	return t.line(Whole, "empty", writer(e), "said nothing", "")
}

// writer is who could write a message, by its subject alone.
func writer(e *events.Event) string {
	switch e.Author {
	case events.AuthorLeader:
		return leader
	case events.AuthorLedger:
		return "ledger"
	case events.AuthorHost:
		return "@" + e.Name
	case events.AuthorNone:
		return "somebody"
	}
	return e.Name
}

// Whole is the index of lines that are about a message, not about a fact in it.
const Whole = 1<<32 - 1

type teller struct {
	e     *events.Event
	names Names
	at    int64
	lines []*rows.StoryLine
}

func (t *teller) line(index int, kind, who, what, why string) *rows.StoryLine {
	at := t.at
	if at == 0 {
		at = t.e.At
	}
	l := &rows.StoryLine{Seq: t.e.Seq, Index: uint32(index), AtUs: at, Kind: kind, Who: who, What: what, Why: why, Subject: t.e.Subject}
	t.lines = append(t.lines, l)
	return l
}

func (t *teller) job(index int, job uint32, kind, who, what, why string) *rows.StoryLine {
	l := t.line(index, kind, who, what, why)
	l.Job, l.Label = job, t.names.Label(job)
	return l
}

// leader is who speaks on ev.sched.
const leader = "controller"

func (t *teller) intent(i int, intent *events.Intent) {
	a := intent.GetAuthor()
	who := a.GetUser()
	if who == "" {
		who = t.names.User(a.GetUid())
	}
	if a.GetHost() != "" {
		who += "@" + a.GetHost()
	}
	body := intent.GetBody()
	switch intent.GetVerb() {
	case events.Verb_SUBMIT:
		m := &events.Submit{}
		if m.UnmarshalVT(body) == nil {
			for _, spec := range m.Components {
				t.line(i, "submit", who, "submits "+describe(spec), "")
			}
			return
		}
	case events.Verb_CANCEL:
		m := &events.Cancel{}
		if m.UnmarshalVT(body) == nil {
			what := "cancels "
			if m.Signal != 0 {
				what = fmt.Sprintf("sends signal %d to ", m.Signal)
			}
			t.targets(i, "cancel", who, what, m.Targets, filterText(m.Filter))
			return
		}
	case events.Verb_CRONTAB:
		m := &events.Crontab{}
		if m.UnmarshalVT(body) == nil {
			whose := "a crontab"
			if m.Owner != nil {
				whose = "the crontab of " + m.Owner.User
			}
			what := fmt.Sprintf("sets %s of %s", whose, plural(uint64(len(m.Entries)), "entry", "entries"))
			if m.Remove {
				what = "removes " + whose
			}
			t.line(i, "crontab", who, what, "")
			return
		}
	case events.Verb_SET_TRIGGER:
		m := &events.Trigger{}
		if m.UnmarshalVT(body) == nil {
			t.line(i, "set-trigger", who, "sets a trigger that runs "+m.Program, "")
			return
		}
	case events.Verb_CLEAR_TRIGGERS:
		m := &events.ClearTriggers{}
		if m.UnmarshalVT(body) == nil {
			t.line(i, "clear-triggers", who, "clears triggers", "")
			return
		}
	case events.Verb_TOP:
		m := &events.Select{}
		if m.UnmarshalVT(body) == nil {
			t.targets(i, "top", who, "puts first ", m.Targets, "")
			return
		}
	case events.Verb_NOTIFY:
		m := &events.Notify{}
		if m.UnmarshalVT(body) == nil {
			t.targets(i, "notify", who, "tells ", m.Targets, "")
			return
		}
	case events.Verb_UPDATE_STEP:
		m := &events.UpdateStep{}
		if m.UnmarshalVT(body) == nil {
			t.targets(i, "update-step", who, "changes the time limit of steps of ", m.Targets, "")
			return
		}
	case events.Verb_UPDATE_PARTITION:
		m := &events.UpdatePartition{}
		if m.UnmarshalVT(body) == nil {
			deed := map[events.PartitionAct]string{events.PartitionAct_PARTITION_CREATE: "makes", events.PartitionAct_PARTITION_CHANGE: "changes", events.PartitionAct_PARTITION_DELETE: "removes"}[m.Act]
			t.line(i, "update-partition", who, deed+" partition "+m.Name, "")
			return
		}
	case events.Verb_HOLD, events.Verb_RELEASE, events.Verb_SUSPEND, events.Verb_RESUME:
		m := &events.Select{}
		if m.UnmarshalVT(body) == nil {
			verb := strings.ToLower(intent.GetVerb().String())
			t.targets(i, verb, who, verb+"s ", m.Targets, "")
			return
		}
	case events.Verb_COMPLETE:
		m := &events.Complete{}
		if m.UnmarshalVT(body) == nil {
			t.targets(i, "complete", who, fmt.Sprintf("is done, with %d:%d, with ", m.ExitCode, m.ExitSignal), []*events.Target{{Job: m.Job}}, "")
			return
		}
	case events.Verb_REQUEUE:
		m := &events.Requeue{}
		if m.UnmarshalVT(body) == nil {
			what := "requeues "
			if m.Hold {
				what = "requeues and holds "
			}
			t.targets(i, "requeue", who, what, m.Targets, "")
			return
		}
	case events.Verb_UPDATE_JOB:
		m := &events.UpdateJob{}
		if m.UnmarshalVT(body) == nil {
			t.targets(i, "update", who, "sets "+updateText(m)+" of ", m.Targets, "")
			return
		}
	case events.Verb_UPDATE_NODE:
		m := &events.UpdateNode{}
		if m.UnmarshalVT(body) == nil {
			l := t.line(i, "update-node", who, nodeOrder(m.Order)+" "+m.Nodes, m.GetReason())
			l.Node = m.Nodes
			return
		}
	case events.Verb_ADMINISTER:
		m := &events.Policy{}
		if m.UnmarshalVT(body) == nil {
			for _, act := range m.Acts {
				t.line(i, "administer", who, "wishes: "+policyText(act), "")
			}
			return
		}
	case events.Verb_CONFIGURE:
		t.line(i, "configure", who, "hands in a configuration", "")
		return
	}
	t.line(i, "unknown", who, fmt.Sprintf("wishes something that cannot be read (verb %d)", intent.GetVerb()), "")
}

// targets tells an act of control: a line for each job that it names, so that each job's story has its own.
func (t *teller) targets(i int, kind, who, what string, targets []*events.Target, filter string) {
	if len(targets) == 0 {
		if filter == "" {
			filter = "nothing"
		}
		t.line(i, kind, who, what+filter, "")
		return
	}
	for _, target := range targets {
		t.job(i, target.Job, kind, who, what+targetText(target), "").Label = t.named(target)
	}
}

// named is a target as people name its job. An array's id is also the raw id of one of its tasks: whoever names it means the array.
func (t *teller) named(target *events.Target) string {
	if target.HasTasks {
		return tasksLabel(target.Job, target.Tasks)
	}
	label := t.names.Label(target.Job)
	if strings.HasPrefix(label, fmt.Sprint(target.Job)+"_") {
		return fmt.Sprint(target.Job)
	}
	return label
}

// tasksLabel is some tasks of an array: 81_5, or 81_[1-4,7].
func tasksLabel(job uint32, tasks events.Words) string {
	if first, ok := tasks.First(); ok && tasks.Count() == 1 {
		return fmt.Sprintf("%d_%d", job, first)
	}
	return fmt.Sprintf("%d_[%s]", job, short(tasks.String(), 32))
}

func targetText(t *events.Target) string {
	text := fmt.Sprint(t.Job)
	if t.HasTasks {
		text = tasksLabel(t.Job, t.Tasks)
	}
	if t.HasStep {
		text += "." + events.StepName(t.Step)
	}
	return text
}

func filterText(f *events.Filter) string {
	if f == nil {
		return ""
	}
	var parts []string
	add := func(what string, list []string) {
		if len(list) > 0 {
			parts = append(parts, what+" "+strings.Join(list, ","))
		}
	}
	add("user", f.Users)
	add("account", f.Accounts)
	add("partition", f.Partitions)
	add("name", f.Names)
	add("QOS", f.Qos)
	for _, s := range f.States {
		parts = append(parts, "state "+s.Word())
	}
	if f.Nodes != "" {
		parts = append(parts, "nodes "+f.Nodes)
	}
	if f.Reservation != "" {
		parts = append(parts, "reservation "+f.Reservation)
	}
	if f.Wckey != "" {
		parts = append(parts, "wckey "+f.Wckey)
	}
	return "jobs of " + strings.Join(parts, ", ")
}

// describe is a request in a few words.
func describe(s *events.JobSpec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", s.GetName())
	if s.GetArray() != nil {
		fmt.Fprintf(&b, " as an array of %d", events.Words(s.Array.Tasks).Count())
		if s.Array.MaxRunning != 0 {
			fmt.Fprintf(&b, ", %d at a time", s.Array.MaxRunning)
		}
	}
	if s.GetPartition() != "" {
		b.WriteString(" to " + s.Partition)
	}
	var wants []string
	if s.GetMinNodes() != 0 {
		wants = append(wants, plural(uint64(s.MinNodes), "node"))
	}
	if s.GetTasks() != 0 {
		wants = append(wants, plural(uint64(s.Tasks), "task"))
	}
	if s.GetCpusPerTask() > 1 {
		wants = append(wants, plural(uint64(s.CpusPerTask), "CPU")+" a task")
	}
	switch {
	case s.GetMemPerNodeMib() != 0:
		wants = append(wants, fmt.Sprintf("%d MiB a node", s.MemPerNodeMib))
	case s.GetMemPerCpuMib() != 0:
		wants = append(wants, fmt.Sprintf("%d MiB a CPU", s.MemPerCpuMib))
	}
	for _, g := range s.GetGres() {
		name := g.Name
		if g.Type != "" {
			name += ":" + g.Type
		}
		wants = append(wants, fmt.Sprintf("%s:%d %s", name, g.Count, [...]string{"a node", "a task", "a socket", "in all"}[g.Scope&3]))
	}
	if s.GetTimeLimitS() != 0 {
		wants = append(wants, "for at most "+limit(s.TimeLimitS))
	}
	if s.GetDependencyText() != "" {
		wants = append(wants, "after "+s.DependencyText)
	}
	if len(wants) > 0 {
		b.WriteString(": " + strings.Join(wants, ", "))
	}
	return b.String()
}

// share is an allocation in a few words.
func share(a *events.Allocation) string {
	parts := []string{plural(uint64(a.CPUs()), "CPU")}
	if m := a.MemoryMiB(); m != 0 {
		parts = append(parts, fmt.Sprintf("%d MiB", m))
	}
	for _, s := range a.GetShares() {
		for _, g := range s.Gres {
			name := g.Name
			if g.Type != "" {
				name += ":" + g.Type
			}
			parts = append(parts, fmt.Sprintf("%s %s on %s", name, events.Words(g.Ids), hostlist.Compress(s.Nodes)))
		}
	}
	return fmt.Sprintf("%s (%s)", hostlist.Compress(a.NodeNames()), strings.Join(parts, ", "))
}
