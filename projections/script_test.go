package projections

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
)

// Scripts: testdata/*.txt say messages in a line each and what the state makes of them. A block of commands ends with
// "----", what follows up to an empty line is the output. `go test -run Scripts -rewrite` writes the output anew, to be
// read as a diff. Beside, every message is folded by a state loaded from a snapshot too, and the state audited (history).
//
//	config [nodes=n[1-4] cpus=8 mem=16000 gpus=4 age=300 rts=1]
//	term NAME · +SECONDS · up NODE [boot=b exec=x] · lost NODE · returned NODE · node NODE ORDER [reason=…]
//	intent [user= verb= ids= nonce=] · submit [user= name= part= array= after= any begin=+S hold= prio=] · judge SEQ.INDEX CODE
//	place ID [task= run= part=] NODE:CPUS[:MEM[:GPUS]] …
//	started NODE ID [run= step= tasks= name= limit= gpus=] · exited NODE ID [run= step= code= sig= cause= boot= exec=]
//	stop ID [cause= by=] · end ID STATE [run= code= tasks=] · requeue ID [run= hold=] · signal ID [sig=] · limit ID [step= limit=]
//	hold ID [tasks= kind=] · release ID [tasks=] · update ID [name= part= throttle= after= limit= tasks=] · suspend ID · resume ID
//	as TERM [n=] COMMAND · again · show jobs|nodes|steps|inbox|voids · show array ID · show job ID · show verdicts SEQ
var rewrite = flag.Bool("rewrite", false, "write the expected output of scripts anew")

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{history: newHistory(t), start: 1000000000, exec: map[string][2]string{}}
			got := s.run(string(data))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(data) {
				t.Errorf("%s: the output is another:\n%s", file, firstDifference(string(data), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			line := func(l []string) string {
				if i < len(l) {
					return l[i]
				}
				return "(end)"
			}
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, line(w), line(g))
		}
	}
	return "none"
}

type script struct {
	*history
	start int64
	exec  map[string][2]string // node: boot, executor
}

func (s *script) run(text string) string {
	var out strings.Builder
	var block []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i] + "\n")
		switch {
		case lines[i] == "----":
			for _, line := range block {
				out.WriteString(s.command(line))
			}
			block = nil
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
		case lines[i] != "" && !strings.HasPrefix(lines[i], "#"):
			block = append(block, lines[i])
		}
	}
	if len(block) > 0 {
		s.t.Fatalf("the last commands have no ---- after them: %q", block)
	}
	return out.String()
}

// options are the words of a command: plain ones in order, and key=value.
type options struct {
	t     testing.TB
	words []string
	keys  map[string]string
}

func (o options) str(key, otherwise string) string {
	if v, ok := o.keys[key]; ok {
		return v
	}
	return otherwise
}

func (o options) num(key string, otherwise uint32) uint32 {
	v, ok := o.keys[key]
	if !ok {
		return otherwise
	}
	return o.number(v)
}

func (o options) number(v string) uint32 {
	o.t.Helper()
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		o.t.Fatalf("not a number in a script: %q", v)
	}
	return uint32(n)
}

func (o options) set(text string) events.Words {
	o.t.Helper()
	if text == "" {
		return nil
	}
	set, err := idset.Parse(text, 1<<20)
	if err != nil {
		o.t.Fatal(err)
	}
	var w events.Words
	for n := range set.All() {
		w.Set(uint32(n))
	}
	return w
}

func (s *script) command(line string) string {
	o := options{t: s.t, keys: map[string]string{}}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			o.keys[k] = v
		} else {
			o.words = append(o.words, w)
		}
	}
	verb := o.words[0]
	arg := func(i int) string {
		if i >= len(o.words) {
			s.t.Fatalf("%q wants more words", line)
		}
		return o.words[i]
	}
	if strings.HasPrefix(verb, "+") {
		s.at += int64(o.number(verb[1:])) * 1000000
		return ""
	}
	switch verb {
	case "show":
		return s.show(o)
	case "as": // the rest, said by another term
		term, n := s.term, s.n
		s.term, s.n = []byte(arg(1)), uint64(o.num("n", 1))-1
		out := s.command(strings.Join(strings.Fields(line)[2:], " "))
		s.term, s.n = term, n
		return out
	case "again": // the last message, once more
		last := s.log[len(s.log)-1]
		return s.outcome(s.bytes(last.subject, last.data))
	case "intent":
		v := s.rawIntent(o)
		return s.outcome(v)
	case "submit":
		out := s.outcome(s.rawIntent(o))
		if n := len(s.c.Inbox()); n == 0 || s.c.Inbox()[n-1].Seq != s.seq {
			return out
		}
		item := s.c.Inbox()[len(s.c.Inbox())-1]
		return out + s.outcome(s.facts(fact(s.admission(o, item))))
	case "term":
		return s.outcome(s.begin(arg(1)))
	case "up", "started", "exited", "ailing":
		return s.outcome(s.nodeCommand(verb, arg(1), o))
	}
	return s.outcome(s.facts(s.factCommand(verb, o)))
}

func (s *script) rawIntent(o options) Verdict {
	user := o.str("user", "alice")
	verb := events.Verb(events.Verb_value[o.str("verb", "SUBMIT")])
	ids := uint32(0)
	if verb == events.Verb_SUBMIT {
		ids = 1
	}
	s.nonce++
	nonce := fmt.Sprintf("%016d", o.num("nonce", uint32(s.nonce)))
	return s.append(events.SubjectIntentHost("login"), &events.IntentBatch{Intents: []*events.Intent{{
		Verb: verb, Nonce: []byte(nonce), Ids: o.num("ids", ids), Author: &events.Author{Uid: uidOf(user), User: user}}}})
}

func (s *script) admission(o options, item *InboxItem) *events.Admitted {
	spec := &events.JobSpec{Name: o.str("name", "job"), Partition: o.str("part", "main"), TimeLimitS: o.num("limit", 3600)}
	if text := o.str("array", ""); text != "" {
		set, throttle, err := idset.ParseArray(text)
		if err != nil {
			s.t.Fatal(err)
		}
		spec.Array = &events.ArraySpec{Tasks: o.set(set.String()), MaxRunning: uint32(throttle), Text: text}
	}
	spec.Dependencies = s.dependencies(o, o.str("after", ""))
	for _, w := range o.words {
		switch w {
		case "any":
			spec.DependencyAny = true
		case "exclusive":
			spec.Exclusive = events.Exclusive_EXCLUSIVE_NODE
		}
	}
	if b := o.str("begin", ""); b != "" {
		spec.BeginUs = s.at + int64(o.number(strings.TrimPrefix(b, "+")))*1000000
	}
	a := &events.Admitted{
		Intent: &events.IntentRef{Seq: item.Seq, Index: item.Index}, Job: item.FirstId, Spec: spec, Priority: o.num("prio", 10),
		Owner: &events.Owner{Uid: item.Intent.Author.Uid, User: item.Intent.Author.User},
	}
	switch o.str("hold", "") {
	case "user":
		a.Hold, a.Priority = events.HoldKind_HELD_USER, 0
	case "admin":
		a.Hold, a.Priority = events.HoldKind_HELD_ADMIN, 0
	}
	return a
}

var kinds = map[string]events.DependencyKind{
	"after": events.DependencyKind_AFTER, "afterok": events.DependencyKind_AFTER_OK, "afternotok": events.DependencyKind_AFTER_NOT_OK,
	"afterany": events.DependencyKind_AFTER_ANY, "aftercorr": events.DependencyKind_AFTER_CORR, "singleton": events.DependencyKind_SINGLETON,
}

func (s *script) dependencies(o options, text string) []*events.Dependency {
	var list []*events.Dependency
	for term := range strings.SplitSeq(text, ",") {
		if term == "" {
			continue
		}
		word, target, _ := strings.Cut(term, ":")
		kind, ok := kinds[word]
		if !ok {
			s.t.Fatalf("no dependency is called %q", word)
		}
		d := &events.Dependency{Kind: kind}
		if target != "" {
			target, delay, has := strings.Cut(target, "+")
			if has {
				d.DelayMin = o.number(delay)
			}
			id, task, has := strings.Cut(target, "_")
			d.Job = o.number(id)
			if has {
				d.Task, d.HasTask = o.number(task), true
			}
		}
		list = append(list, d)
	}
	return list
}

func (s *script) nodeCommand(verb, node string, o options) Verdict {
	at := s.exec[node]
	if verb == "up" {
		at = [2]string{o.str("boot", at[0]), o.str("exec", at[1])}
		for i, otherwise := range []string{"b1", "x1"} {
			if at[i] == "" {
				at[i] = otherwise
			}
		}
		s.exec[node] = at
		inv := &events.Inventory{Cpus: o.num("cpus", 8), MemoryMib: uint64(o.num("mem", 16000))}
		return s.node(node, at[0], at[1], nodeFact(&events.NodeUp{Inventory: inv}))
	}
	boot, exec := o.str("boot", at[0]), o.str("exec", at[1])
	if verb == "ailing" {
		return s.node(node, boot, exec, nodeFact(&events.DeviceAiling{Device: o.words[2], Text: "broken"}))
	}
	id := o.number(o.words[2])
	run := o.num("run", s.c.Job(id).GetRun())
	step := events.StepBatch
	if v := o.str("step", "batch"); v != "batch" {
		step = o.number(v)
	}
	if verb == "started" {
		f := &events.StepStarted{Job: id, Run: run, Step: step, AtUs: s.at}
		if _, told := o.keys["tasks"]; told {
			f.Part = &events.StepPart{Name: o.str("name", "a"), Tasks: o.num("tasks", 1), Cpus: events.WordsOf(0, 1), LimitS: o.num("limit", 0)}
			for i := range o.num("gpus", 0) {
				f.Part.Gres = []*events.GresShare{{Name: "gpu", Type: "a100", Ids: events.WordsOf(i)}}
			}
		}
		return s.node(node, boot, exec, nodeFact(f))
	}
	return s.node(node, boot, exec, nodeFact(&events.StepExited{
		Job: id, Run: run, Step: step, AtUs: s.at, ExitCode: o.num("code", 0), ExitSignal: o.num("sig", 0),
		Cause: events.EndCause(events.EndCause_value[o.str("cause", "EXITED")]), Usage: &events.Usage{UserUs: 1000, MaxRssKib: uint64(o.num("rss", 10)), Node: node},
	}))
}

func (s *script) factCommand(verb string, o options) *events.Fact {
	id, run := uint32(0), uint32(0)
	switch verb {
	case "config", "node", "lost", "returned", "judge":
	default:
		id = o.number(o.words[1])
		run = o.num("run", s.c.Job(id).GetRun())
	}
	tasks, hasTasks := o.keys["tasks"]
	switch verb {
	case "config":
		return fact(&events.Configured{Config: s.config(o)})
	case "judge":
		seq, index, _ := strings.Cut(o.words[1], ".")
		return fact(&events.Judged{Intent: &events.IntentRef{Seq: uint64(o.number(seq)), Index: o.number(index)}, Code: events.Code(events.Code_value[o.words[2]])})
	case "node":
		orders := map[string]events.NodeOrder{"drain": events.NodeOrder_NODE_DRAIN, "down": events.NodeOrder_NODE_DOWN, "resume": events.NodeOrder_NODE_RESUME, "undrain": events.NodeOrder_NODE_UNDRAIN}
		return fact(&events.NodeChanged{Node: o.words[1], Order: orders[o.words[2]], Reason: o.str("reason", ""), ByUid: 0})
	case "lost":
		return fact(&events.NodeLost{Node: o.words[1]})
	case "returned":
		return fact(&events.NodeReturned{Node: o.words[1]})
	case "place":
		p := &events.Placed{Job: id, Run: o.num("run", s.c.Job(id).GetRun()+1), Partition: o.str("part", "main"), LimitS: 3600, Allocation: &events.Allocation{}}
		if task, ok := o.keys["task"]; ok {
			p.Task, p.HasTask = o.number(task), true
		}
		for _, w := range o.words[2:] {
			part := append(strings.Split(w, ":"), "", "", "")
			names, err := hostlist.Expand(part[0], 100)
			if err != nil {
				s.t.Fatal(err)
			}
			share := &events.NodeShare{Nodes: names, Cpus: o.set(part[1]), Tasks: 1}
			if part[2] != "" {
				share.MemoryMib = uint64(o.number(part[2]))
			}
			if part[3] != "" {
				share.Gres = []*events.GresShare{{Name: "gpu", Type: "a100", Ids: o.set(part[3])}}
			}
			p.Allocation.Shares = append(p.Allocation.Shares, share)
		}
		return fact(p)
	case "stop":
		return fact(&events.Stopping{Job: id, Run: run, Cause: events.StopCause(events.StopCause_value["STOP_"+strings.ToUpper(o.str("cause", "cancel"))]), ByUid: o.num("by", 0), KillAfterS: 30})
	case "end":
		state, ok := events.ParseJobState(o.words[2])
		if !ok {
			s.t.Fatalf("no state is called %q", o.words[2])
		}
		return fact(&events.Ended{Job: id, Run: run, State: state, ExitCode: o.num("code", 0), Tasks: o.set(tasks), HasTasks: hasTasks, ByUid: o.num("by", 0)})
	case "requeue":
		hold := events.HoldKind_NOT_HELD
		if o.str("hold", "") != "" {
			hold = events.HoldKind_HELD_USER
		}
		return fact(&events.Requeued{Job: id, Run: run, Priority: 10, Hold: hold})
	case "hold":
		kind := events.HoldKind_HELD_USER
		if o.str("kind", "user") == "admin" {
			kind = events.HoldKind_HELD_ADMIN
		}
		return fact(&events.Held{Job: id, Tasks: o.set(tasks), HasTasks: hasTasks, Kind: kind})
	case "release":
		return fact(&events.Released{Job: id, Tasks: o.set(tasks), HasTasks: hasTasks, Priority: 10})
	case "update":
		u := &events.UpdateJob{}
		for key, v := range o.keys {
			n := uint32(0)
			switch key {
			case "name":
				u.Name = &v
			case "part":
				u.Partition = &v
			case "throttle":
				n = o.number(v)
				u.ArrayThrottle = &n
			case "limit":
				n = o.number(v)
				u.TimeLimitS = &n
			case "after":
				u.SetDependencies, u.Dependencies = true, s.dependencies(o, v)
			case "tasks":
				u.Targets = []*events.Target{{Job: id, HasTasks: true, Tasks: o.set(v)}}
			}
		}
		return fact(&events.Updated{Job: id, Change: u})
	case "signal":
		return fact(&events.Signalled{Job: id, Run: run, Signal: int32(o.num("sig", 10))})
	case "limit":
		return fact(&events.StepLimited{Job: id, Run: run, Step: o.num("step", 0), LimitS: o.num("limit", 0)})
	case "suspend":
		return fact(&events.Suspended{Job: id, Run: run})
	case "resume":
		return fact(&events.Resumed{Job: id, Run: run})
	}
	s.t.Fatalf("no command is called %q", verb)
	return nil
}

func (s *script) config(o options) *events.Config {
	return &events.Config{
		Cluster: "test", MinJobAgeS: o.num("age", 300), SelectMemory: true, ReturnToServiceN: o.num("rts", 1),
		Nodes: []*events.NodeDef{{Names: o.str("nodes", "n[1-4]"), Cpus: o.num("cpus", 8), Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: uint64(o.num("mem", 16000)),
			Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: uint64(o.num("gpus", 4))}}}},
		Partitions: []*events.PartitionDef{{Name: "main", Nodes: "ALL", Default: true}, {Name: "small", Nodes: "n[1-2]"}},
	}
}

// outcome is what a message did, a line for each change and each void fact.
func (s *script) outcome(v Verdict) string {
	var b strings.Builder
	for _, ch := range s.c.Changes() {
		switch {
		case ch.After != nil:
			fmt.Fprintf(&b, "%s\n", s.line(ch.After))
		case ch.Before != nil:
			fmt.Fprintf(&b, "%d has left\n", ch.Before.Id)
		case ch.NodeFact == nil && ch.Fact.GetNodeChanged() == nil && ch.Fact.GetNodeLost() == nil && ch.Fact.GetNodeReturned() == nil:
		case ch.NodeAfter == nil:
			fmt.Fprintf(&b, "%s has gone\n", ch.NodeBefore.Name)
		default:
			fmt.Fprintf(&b, "%s\n", nodeLine(ch.NodeAfter))
		}
	}
	for _, f := range v.Void {
		fmt.Fprintf(&b, "void: %s", f.Why)
		if f.More != "" {
			fmt.Fprintf(&b, ": %s", f.More)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (s *script) when(us int64) string {
	return fmt.Sprintf("+%ds", (us-s.start)/1000000)
}

func (s *script) line(j *Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", j.Id)
	if j.HasTask {
		fmt.Fprintf(&b, " (%d_%d)", j.ArrayId, j.ArrayTask)
	} else if j.Remainder() {
		fmt.Fprintf(&b, " (%d_[%s])", j.ArrayId, events.Words(j.Pending))
	}
	fmt.Fprintf(&b, " %s", j.State.Word())
	if j.Completing {
		b.WriteString(" completing")
	}
	if j.Run > 0 {
		fmt.Fprintf(&b, " run %d", j.Run)
	}
	if len(j.Nodes) > 0 {
		fmt.Fprintf(&b, " on %s", hostlist.Compress(j.Allocation.NodeNames()))
		if open := j.Unreported(); len(open) > 0 && len(open) < len(j.Nodes) {
			fmt.Fprintf(&b, " (still on %s)", hostlist.Compress(open))
		}
	}
	if j.Waits() {
		if r := j.PendingReason(s.at); r != events.Reason_NONE {
			fmt.Fprintf(&b, " (%s)", r.Word())
		}
		if j.EligibleUs != 0 {
			fmt.Fprintf(&b, " eligible %s", s.when(j.EligibleUs))
		}
		if ready := j.ReadyTasks(); j.hasCorr() && j.Remainder() {
			fmt.Fprintf(&b, " ready %s never %s", ready, j.NeverTasks())
		}
	}
	if j.Stop != nil {
		fmt.Fprintf(&b, " %s at %s", j.Stop.Cause, s.when(j.Stop.AtUs))
	}
	if j.StartUs != 0 {
		fmt.Fprintf(&b, " from %s", s.when(j.StartUs))
	}
	if j.EndUs != 0 {
		fmt.Fprintf(&b, " to %s", s.when(j.EndUs))
	}
	if j.Over() {
		fmt.Fprintf(&b, " exit %d:%d", j.ExitCode, j.ExitSignal)
	}
	if j.EndCause != 0 {
		fmt.Fprintf(&b, " %s", j.EndCause)
	}
	return b.String()
}

func nodeLine(n *Node) string {
	var flags []string
	for _, f := range []struct {
		is   bool
		word string
	}{{n.Up, "up"}, {n.NeverUp, "never up"}, {n.Drain, "drain"}, {n.Down, "down"}, {n.Lost, "lost"}, {n.Fail, "fail"}, {n.Invalid, "invalid"}, {n.Removed, "removed"}} {
		if f.is {
			flags = append(flags, f.word)
		}
	}
	line := fmt.Sprintf("%s %s, cpus %s, %d MiB", n.Name, strings.Join(flags, " "), events.Words(n.CpusUsed), n.MemoryUsedMib)
	for _, g := range n.Gres {
		line += fmt.Sprintf(", %s:%s %s of %d", g.Name, g.Type, events.Words(g.Used), g.Count)
	}
	if len(n.Jobs) > 0 {
		line += fmt.Sprintf(", jobs %v", n.Jobs)
	}
	if n.Reason != "" {
		line += fmt.Sprintf(" (%s)", n.Reason)
	}
	for _, d := range n.Ailing {
		line += fmt.Sprintf(", %s is %s", d.Device, d.Text)
	}
	return line
}

func (s *script) show(o options) string {
	var b strings.Builder
	switch o.words[1] {
	case "jobs":
		s.c.EachJob(func(j *Job) bool { fmt.Fprintln(&b, s.line(j)); return true })
	case "job":
		// The text of a message has blanks at random.
		fmt.Fprintln(&b, strings.Join(strings.Fields(s.c.Job(o.number(o.words[2])).String()), " "))
	case "steps":
		s.c.EachJob(func(j *Job) bool {
			for _, l := range j.GetSteps() {
				fmt.Fprintf(&b, "%d.%d %s: %d tasks, %d cpus, %d MiB, %d gres, from %+ds, limit %d, nodes %s, open %s\n", j.Id, l.Step, l.Name, l.Tasks, l.Cpus, l.MemoryMib, len(l.Gres),
					(l.StartUs-s.start)/1e6, l.LimitS, events.Words(l.Nodes), events.Words(l.Open))
			}
			return true
		})
	case "nodes":
		s.c.nodes.each(func(_ uint32, n *Node) bool { fmt.Fprintln(&b, nodeLine(n)); return true })
	case "inbox":
		for _, item := range s.c.Inbox() {
			fmt.Fprintf(&b, "%d.%d %s by %s, id %d\n", item.Seq, item.Index, item.Intent.Verb, item.Intent.Author.User, item.FirstId)
		}
	case "verdicts":
		for _, v := range s.c.VerdictsOf(uint64(o.number(o.words[2]))) {
			fmt.Fprintf(&b, "%d.%d job %d, %s %s\n", v.Seq, v.Index, v.Job, v.Code, v.Text)
		}
	case "voids":
		for _, v := range s.c.Voids() {
			fmt.Fprintf(&b, "%d × %s, last at %d\n", v.Count, v.Why, v.LastSeq)
		}
	case "array":
		a := s.c.Array(o.number(o.words[2]))
		if a == nil {
			return "no such array\n"
		}
		fmt.Fprintf(&b, "%d tasks, %d running, %d completed, %d failed, at most %d\n", a.Total, a.Running, a.Completed, a.Failed, a.MaxRunning)
		s.c.EachArrayTask(a.Id, func(t *TaskJob) bool {
			fmt.Fprintf(&b, "  %d is %d, %s\n", t.Task, t.Job, t.State.Word())
			return true
		})
	default:
		s.t.Fatalf("nothing called %q is shown", o.words[1])
	}
	return b.String()
}
