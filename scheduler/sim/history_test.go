package sim

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
	"stint/scheduler/replay"
)

var (
	seeds = flag.Int("seeds", 50, "how many random histories")
	seed  = flag.Uint64("seed", 0, "run this history only")
	first = flag.Uint64("first", 1, "the first of the random histories")

	stride  = flag.Uint64("stride", 200, "every so manieth point at which a daemon may die is tried")
	points  = flag.String("points", "", "of the points at which a daemon may die only those of this range are tried, FIRST-LAST: a run of all goes on where one was stopped")
	flawed  = flag.String("flaw", "", "the story is of a world that does this wrong (flaw.go)")
	crashAt = flag.Uint64("crash", 0, "in this history no fault happens but the death of one daemon, at this of the points that daemons pass")
)

// TestHistories lets random work meet random faults, one history a seed: users submit, cancel, hold, change; nodes are cut
// off, crash, lose their executor; leaders die or go on though they were deposed; messages come twice. An auditor watches.
// Then the faults stop, and everything has to come to its end.
func TestHistories(t *testing.T) {
	from, n := *first, uint64(*seeds)
	if testing.Short() {
		n = min(n, 15)
	}
	if *seed != 0 {
		from, n = *seed, 1
	}
	placed, voids, failed := 0, 0, 0
	points, deaths := map[string]int{}, map[string]int{}
	for s := from; s < from+n && failed < 10; s++ {
		a, err := historyOf(s, *crashAt, nil)
		if err != nil {
			t.Errorf("seed %d (its story: go test ./scheduler/sim -run Story -seed %d): %v", s, s, err)
			failed++
		}
		placed += a.placed
		voids += a.voids
		for name, n := range a.w.points {
			points[name] += n
			deaths[name] += a.w.deaths[name]
		}
	}
	t.Logf("%d histories, %d placements, %d void facts and intents", n, placed, voids)
	for _, name := range slices.Sorted(maps.Keys(points)) {
		t.Logf("%9d × %s, %d of them the end", points[name], name, deaths[name])
		if n >= 50 && *crashAt == 0 && deaths[name] == 0 {
			t.Errorf("no daemon died where a %s", name)
		}
	}
	if *seed == 0 && placed < int(n)*10 {
		t.Fatalf("%d placements in %d histories: nothing is tested", placed, n)
	}
}

// TestADeathAtEveryPoint lets one daemon die in a history without other faults, at one point that daemons pass after the other.
// It tries each -stride'th point, those of -points.
func TestADeathAtEveryPoint(t *testing.T) {
	const seed = 3
	calm, err := historyOf(seed, 1<<60, nil)
	if err != nil {
		t.Fatal(err)
	}
	stride := *stride
	if testing.Short() {
		stride *= 4
	}
	from, to := 1+*first%stride, calm.w.point
	if *points != "" {
		var last uint64
		if n, err := fmt.Sscanf(*points, "%d-%d", &from, &last); n != 2 || err != nil || from == 0 || from > last {
			t.Fatalf("-points %q: FIRST-LAST is wanted, of 1 to %d", *points, to)
		}
		to = min(to, last)
	}
	tried, failed := 0, 0
	defer func() { t.Logf("%d of %d points, of %d to %d each %d.", tried, calm.w.point, from, to, stride) }()
	for at := from; at <= to && failed < 10; at += stride {
		if _, err := historyOf(seed, at, nil); err != nil {
			failed++
			t.Errorf("death at point %d (its story: go test ./scheduler/sim -run Story -seed %d -crash %d): %v", at, seed, at, err)
		}
		if tried++; tried%100 == 0 {
			fmt.Fprintf(os.Stderr, "a death at each of %d to %d\n", from, at) // where to go on if it is stopped
		}
	}
}

// randomConfig is a cluster of two to six nodes of one or two kinds, in one to three partitions.
func (w *World) randomConfig() *events.Config {
	r := w.rng
	c := &events.Config{
		Cluster: "random", KillWaitS: uint32(r.IntN(40)), SelectCore: r.IntN(3) > 0, SelectMemory: r.IntN(4) > 0, DefMemPerCpuMib: uint64(r.IntN(2) * 200),
		Backfill: r.IntN(5) > 0, JobRequeue: r.IntN(4) > 0, NodeTimeoutS: 25 + uint32(r.IntN(60)), ReturnToServiceN: 1, MinJobAgeS: 60 + uint32(r.IntN(600)),
		OverTimeLimitS: uint32(r.IntN(2) * 30), Crontabs: true,
	}
	threads := uint32(1 + r.IntN(2))
	def := &events.NodeDef{Names: fmt.Sprintf("n[1-%d]", 2+r.IntN(3)), Sockets: 1, ThreadsPerCore: threads, CoresPerSocket: uint32(2 + r.IntN(7)), MemoryMib: 4000, Weight: 1 + uint32(r.IntN(2))}
	if r.IntN(2) == 0 {
		def.Gres = []*events.GresDef{{Name: "gpu", Type: "a100", Count: 1 + uint64(r.IntN(4))}}
	}
	c.Nodes = append(c.Nodes, def)
	if r.IntN(2) == 0 {
		c.Nodes = append(c.Nodes, &events.NodeDef{Names: "m[1-2]", Sockets: 1, ThreadsPerCore: 1, CoresPerSocket: uint32(1 + r.IntN(16)), MemoryMib: 8000, Weight: 1,
			Features: []string{"big"}, Gres: []*events.GresDef{{Name: "gpu", Type: "v100", Count: 2}}})
	}
	c.Partitions = append(c.Partitions, &events.PartitionDef{Name: "batch", Nodes: "ALL", Default: true, MaxTimeS: 7200, DefaultTimeS: 600, MaxNodes: events.Unlimited, PriorityTier: 1})
	if r.IntN(2) == 0 {
		c.Partitions = append(c.Partitions, &events.PartitionDef{Name: "fast", Nodes: "n[1-2]", MaxTimeS: 1200, DefaultTimeS: 60, MaxNodes: events.Unlimited, PriorityTier: 1 + uint32(r.IntN(2))})
	}
	if r.IntN(2) == 0 {
		c.Licenses = []*events.LicenseDef{{Name: "matlab", Count: 1 + uint32(r.IntN(3))}, {Name: "ansys", Count: 1}}
	}
	if r.IntN(3) == 0 {
		c.Partitions = append(c.Partitions, &events.PartitionDef{Name: "whole", Nodes: "n[1-2]", MaxTimeS: 1200, DefaultTimeS: 60, MaxNodes: 1, PriorityTier: 1, Oversubscribe: "EXCLUSIVE"})
	}
	return c
}

// history is one seed's: rough, or without chance deaths where it is told at which point one dies.
func history(seed uint64) (*auditor, error) { return historyOf(seed, 0, nil) }

func historyOf(seed, crashAt uint64, story func(string)) (*auditor, error) {
	return play(seed, crashAt, "", story)
}

// play is a history in a world with a flaw, or with none. One with a flaw is short, and has many faults.
func play(seed, crashAt uint64, f flaw, story func(string)) (*auditor, error) {
	w := New(Options{Seed: seed, Controllers: 3, MinDelay: Millisecond, MaxDelay: 300 * Millisecond})
	w.story, w.flaw = story, f
	if seed%5 == 0 {
		w.zone = &events.Zone{OffsetS: int32(w.rng.IntN(24)-12) * 3600, Shifts: []*events.ZoneShift{{AtUs: Epoch + 10*Minute, OffsetS: 7200}}}
	}
	a := newAuditor(w)
	h := &happenings{World: w, a: a, config: w.randomConfig()}
	if f == flawOccupied { // it shows while something takes its time to end, and something else waits
		h.config.KillWaitS, h.config.NodeTimeoutS = 60, 25
	}
	w.Intent(author(0), events.Verb_CONFIGURE, h.config)
	w.Advance(10 * Second)
	for _, x := range w.executors {
		x.skew = []int64{0, 0, 0, -Hour, 5 * Minute, -3 * Second}[w.rng.IntN(6)]
	}
	w.Roughen(Roughness{Deaths: 300 + w.rng.IntN(3000), CrashAt: crashAt})
	a.ledger = newLedgerd(w)
	if seed%7 == 3 && f == "" { // somebody sets the clocks: by no chance, so that other histories stay what they were
		for k, by := range []int64{Hour, -Hour, 2 * Hour}[:1+seed/7%3] {
			w.after(int64(k+1)*4*Minute, func() { w.SetClocks(by) })
		}
	}
	rate := 30 + w.rng.IntN(600)
	n := 60 + w.rng.IntN(100)
	switch f {
	case "":
	case flawOccupied:
		rate, n = 100, 60
	default:
		rate, n = 30, 30
	}
	if w.faulty = crashAt == 0; w.faulty {
		w.chaos = func() {
			if w.rng.IntN(rate) == 0 {
				h.fault()
			}
		}
	} else {
		n = 30
	}
	for range n {
		h.wish()
		w.Advance(w.rng.Int64N(30 * Second))
		if w.err != nil {
			return a, w.err
		}
	}
	w.chaos, w.faulty = nil, false
	w.tell("the faults stop")
	if err := h.settle(); err != nil {
		return a, err
	}
	if err := a.close(); err != nil {
		return a, err
	}
	return a, a.ledger.check(a)
}

// happenings makes things happen at random.
type happenings struct {
	*World
	a      *auditor
	ids    []uint32
	config *events.Config // the first
}

func (h *happenings) someID() uint32 {
	if len(h.ids) == 0 || h.rng.IntN(20) == 0 {
		return uint32(h.rng.IntN(200))
	}
	return h.ids[len(h.ids)-1-h.rng.IntN(min(len(h.ids), 12))]
}

func (h *happenings) target() []*events.Target {
	t := &events.Target{Job: h.someID()}
	if h.rng.IntN(4) == 0 {
		t.HasTasks = true
		t.Tasks = events.WordsOf(uint32(h.rng.IntN(6)), uint32(h.rng.IntN(6)))
	}
	return []*events.Target{t}
}

func (h *happenings) wish() {
	r := h.rng
	who := author([]uint32{1000, 1000, 1000, 1001, 0}[r.IntN(5)])
	switch k := r.IntN(52); {
	case k < 24:
		specs := []*events.JobSpec{h.spec()}
		if r.IntN(6) == 0 {
			specs = h.together(specs[0])
		}
		h.Wish(who, events.Verb_SUBMIT, &events.Submit{Components: specs}, func(v *projections.IntentVerdict) {
			for k := range specs {
				if v.FirstId != 0 {
					h.ids = append(h.ids, v.FirstId+uint32(k))
				}
			}
		})
	case k < 28:
		h.ask(who, events.Verb_CANCEL, &events.Cancel{Targets: h.target(), Signal: []int32{0, 0, 0, 9, 10}[r.IntN(5)]})
	case k < 30:
		h.ask(who, events.Verb_HOLD, &events.Select{Targets: h.target(), Admin: r.IntN(3) == 0})
	case k < 32:
		h.ask(who, events.Verb_RELEASE, &events.Select{Targets: h.target()})
	case k < 34:
		h.ask(who, events.Verb_REQUEUE, &events.Requeue{Targets: h.target(), Hold: r.IntN(5) == 0})
	case k < 36:
		u := &events.UpdateJob{Targets: h.target()}
		limit, throttle, name := uint32(60*(1+r.IntN(20))), uint32(r.IntN(4)), "renamed"
		switch r.IntN(4) {
		case 0:
			u.TimeLimitS = &limit
		case 1:
			u.ArrayThrottle = &throttle
		case 2:
			u.Name = &name
		case 3:
			u.SetDependencies = true
			u.Dependencies = []*events.Dependency{{Kind: events.DependencyKind_AFTER_ANY, Job: h.someID()}}
		}
		h.ask(who, events.Verb_UPDATE_JOB, u)
	case k < 37:
		h.ask(author(0), events.Verb_SUSPEND, &events.Select{Targets: h.target()})
	case k < 38:
		h.ask(author(0), events.Verb_RESUME, &events.Select{Targets: h.target()})
	case k < 39:
		h.order(events.NodeOrder(1 + r.IntN(4)))
	case k < 41:
		h.ask(author(0), events.Verb_CONFIGURE, h.otherConfig())
	case k < 43:
		h.crontab(who)
	case k < 45:
		h.ask(author(0), events.Verb_SET_TRIGGER, h.trigger())
	case k < 46:
		h.ask(author(0), events.Verb_CLEAR_TRIGGERS, &events.ClearTriggers{Id: uint32(r.IntN(6))})
	case k < 47:
		h.ask(who, events.Verb_COMPLETE, &events.Complete{Job: h.someID(), ExitCode: uint32(r.IntN(2))})
	case k < 48:
		h.ask(who, []events.Verb{events.Verb_TOP}[0], &events.Select{Targets: h.target()})
	case k < 49:
		h.ask(who, events.Verb_NOTIFY, &events.Notify{Targets: h.target(), Text: "hello"})
	case k < 50:
		p := &events.UpdatePartition{Act: events.PartitionAct_PARTITION_CHANGE, Name: "batch", Values: &events.PartitionDef{Name: "batch", State: events.PartitionState(r.IntN(4))}, Fields: []uint32{15}}
		h.ask(author(0), events.Verb_UPDATE_PARTITION, p)
		h.after(h.rng.Int64N(3*Minute), func() {
			p := p.CloneVT()
			p.Values.State = 0
			h.ask(author(0), events.Verb_UPDATE_PARTITION, p)
		})
	case k < 51:
		h.ask(author(0), events.Verb_ADMINISTER, h.policy())
	default:
		h.ask(who, events.Verb_CANCEL, &events.Cancel{Filter: &events.Filter{Users: []string{who.User}, States: []events.JobState{events.JobState_PENDING}}})
	}
}

func (h *happenings) order(o events.NodeOrder) {
	reason := "chance"
	h.ask(author(0), events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: h.someNode(), Order: o, Reason: &reason})
}

// ask has somebody wish for something, and nobody wait for it.
func (h *happenings) ask(who *events.Author, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }) {
	h.Wish(who, verb, body, nil)
}

// otherConfig is a configuration that differs in what may change while jobs run: limits, partitions, licences, nodes that come and go.
func (h *happenings) otherConfig() *events.Config {
	c, next := h.config, h.randomConfig()
	next.Nodes = nil
	for i, n := range c.Nodes {
		if i == 0 || h.rng.IntN(3) > 0 {
			next.Nodes = append(next.Nodes, n)
		}
	}
	return next
}

func (h *happenings) crontab(who *events.Author) {
	m := &events.Crontab{Remove: h.rng.IntN(3) == 0}
	for range h.rng.IntN(3) {
		if m.Remove {
			break
		}
		list, err := slurm.ReadCrontab([]string{"* * * * * a", "*/3 * * * * b", "1-59/2 * * * * c"}[h.rng.IntN(3)], slurm.SbatchInput{Dir: "/"})
		if err != nil {
			h.fail("a crontab: %v", err)
			return
		}
		s := h.spec()
		s.Array, s.Dependencies, s.BeginUs, s.DeadlineUs, s.Hold = nil, nil, 0, 0, false
		s.Cron = list[0].Spec.Cron
		s.Cron.FirstLine, s.Cron.LastLine = uint32(len(m.Entries)), uint32(len(m.Entries))
		m.Entries, m.Text = append(m.Entries, s), m.Text+"line\n"
	}
	m.Remove = len(m.Entries) == 0
	h.ask(who, events.Verb_CRONTAB, m)
}

func (h *happenings) trigger() *events.Trigger {
	t := &events.Trigger{Nodes: "*", Program: "/bin/true", Permanent: h.rng.IntN(3) == 0, OffsetS: int32(h.rng.IntN(60))}
	switch h.rng.IntN(3) {
	case 0:
		t.Kinds = []events.TriggerKind{[]events.TriggerKind{events.TriggerKind_TRIGGER_DOWN, events.TriggerKind_TRIGGER_UP, events.TriggerKind_TRIGGER_DRAINED}[h.rng.IntN(3)]}
	case 1:
		t.Of, t.Nodes, t.Job, t.Permanent = events.TriggerOf_TRIGGER_JOB, "", h.someID(), false
		t.Kinds = []events.TriggerKind{[]events.TriggerKind{events.TriggerKind_TRIGGER_FINI, events.TriggerKind_TRIGGER_TIME}[h.rng.IntN(2)]}
	default:
		t.Of, t.Nodes, t.Kinds = events.TriggerOf_TRIGGER_CONTROLLER, "", []events.TriggerKind{events.TriggerKind_TRIGGER_CONTROLLER_RESUMED}
	}
	return t
}

func (h *happenings) policy() *events.Policy {
	return &events.Policy{Acts: []*events.PolicyAct{{Deed: events.PolicyDeed(1 + h.rng.IntN(3)), Kind: events.PolicyKind(1 + h.rng.IntN(5)), Names: []string{[]string{"chem", "physics", "u1000"}[h.rng.IntN(3)]}}}}
}

func (h *happenings) someNode() string { return h.executors[h.rng.IntN(len(h.executors))].name }

func (h *happenings) spec() *events.JobSpec {
	r := h.rng
	s := &events.JobSpec{Name: []string{"a", "b", "c"}[r.IntN(3)], Script: &events.BlobRef{Subject: "blob"}, TimeLimitS: uint32(30 * (1 + r.IntN(20)))}
	s.Args = append(s.Args, fmt.Appendf(nil, "run=%d", 1+r.IntN(200)))
	if r.IntN(4) == 0 {
		s.Args = append(s.Args, fmt.Appendf(nil, "steps=%d", 1+r.IntN(4)))
	}
	if r.IntN(12) == 0 {
		s.Interactive, s.Script = true, nil
	}
	if h.flaw == flawOccupied {
		s.Args = append(s.Args, []byte("run=300"), []byte("trap=60"))
	}
	switch r.IntN(10) {
	case 0:
		s.Args = append(s.Args, []byte("exit=3"))
	case 1:
		s.Args = append(s.Args, []byte("oom"))
	case 2:
		s.Args = append(s.Args, []byte("unstartable"))
	case 3:
		s.Args = append(s.Args, fmt.Appendf(nil, "trap=%d", r.IntN(60)))
	}
	switch r.IntN(6) {
	case 0:
		s.Tasks, s.CpusPerTask = uint32(1+r.IntN(8)), uint32(1+r.IntN(3))
	case 1:
		s.MinNodes = uint32(1 + r.IntN(3))
		s.MaxNodes = s.MinNodes + uint32(r.IntN(2))
	case 2:
		s.MinNodes, s.Tasks = 2, uint32(2+r.IntN(6))
		s.MaxNodes = 2
	case 3:
		s.TasksPerNode = uint32(1 + r.IntN(3))
		s.MinNodes = uint32(1 + r.IntN(2))
	}
	switch r.IntN(6) {
	case 0:
		s.MemPerNodeMib = uint64(100 * (1 + r.IntN(30)))
	case 1:
		s.MemPerCpuMib = uint64(50 * (1 + r.IntN(20)))
	case 2:
		s.Gres = []*events.Gres{{Name: "gpu", Count: 1 + uint64(r.IntN(2)), Scope: []events.Scope{events.Scope_PER_NODE, events.Scope_PER_JOB, events.Scope_PER_TASK}[r.IntN(3)]}}
	case 3:
		s.Exclusive = events.Exclusive(r.IntN(2))
	}
	if r.IntN(4) == 0 {
		s.Partition = []string{"fast", "whole", "batch,fast", "fast,whole"}[r.IntN(4)]
	}
	if r.IntN(5) == 0 {
		s.Array = &events.ArraySpec{MaxRunning: uint32(r.IntN(4))}
		for i := range uint32(6) {
			if r.IntN(3) > 0 {
				w := events.Words(s.Array.Tasks)
				w.Set(i)
				s.Array.Tasks = w
			}
		}
	}
	if r.IntN(3) == 0 {
		kinds := []events.DependencyKind{events.DependencyKind_AFTER, events.DependencyKind_AFTER_OK, events.DependencyKind_AFTER_NOT_OK, events.DependencyKind_AFTER_ANY, events.DependencyKind_AFTER_CORR, events.DependencyKind_SINGLETON}
		for range 1 + r.IntN(2) {
			d := &events.Dependency{Kind: kinds[r.IntN(len(kinds))]}
			if d.Kind != events.DependencyKind_SINGLETON {
				d.Job = h.someID()
				if d.Job == 0 {
					d.Job = 1
				}
				if d.Kind == events.DependencyKind_AFTER {
					d.DelayMin = uint32(r.IntN(3))
				}
			}
			s.Dependencies = append(s.Dependencies, d)
		}
		s.DependencyAny = r.IntN(4) == 0
		s.KillOnInvalidDependency = r.IntN(3) == 0
	}
	switch r.IntN(12) {
	case 0:
		s.BeginUs = h.now + r.Int64N(5*Minute)
	case 1:
		s.DeadlineUs = h.now + r.Int64N(20*Minute)
	case 2:
		s.Hold = true
	case 3:
		s.Requeue = events.Choice_CHOICE_NO
	case 4:
		s.Nice = int32(r.IntN(100))
	}
	switch r.IntN(12) {
	case 0, 1:
		s.Licenses = []string{"matlab", "matlab:2", "ansys", "matlab:1,ansys:1", "matlab:2|ansys:1"}[r.IntN(5)]
	case 2, 3:
		s.NoKill = true
	case 4:
		s.Constraint, s.BatchFeatures = "big*1", "big"
	}
	return s
}

// together makes a spec the first component of a heterogeneous job of two or three. They are no arrays, and wait for the same.
func (h *happenings) together(first *events.JobSpec) []*events.JobSpec {
	first.Array = nil
	specs := []*events.JobSpec{first}
	for range 1 + h.rng.IntN(2) {
		s := h.spec()
		s.Array = nil
		s.Dependencies, s.DependencyAny, s.KillOnInvalidDependency = first.Dependencies, first.DependencyAny, first.KillOnInvalidDependency
		s.BeginUs, s.DeadlineUs, s.Hold, s.Requeue = first.BeginUs, first.DeadlineUs, first.Hold, first.Requeue
		specs = append(specs, s)
	}
	return specs
}

func (h *happenings) fault() {
	node := h.someNode()
	k := h.rng.IntN(16)
	if h.flaw == flawOccupied {
		k = 2
	}
	switch k {
	case 0, 1:
		h.a.trouble[node] = true
		h.tell("the executor of %s is killed", node)
		h.Kill(node)
	case 2, 3:
		h.a.trouble[node] = true
		h.tell("%s is cut off", node)
		h.Cut(node)
		h.after(h.rng.Int64N(5*Minute), func() { h.tell("%s is heard again", node); h.Heal(node) })
	case 4:
		h.a.trouble[node] = true
		h.Crash(node)
		h.after(h.rng.Int64N(3*Minute), func() { h.Restart(node) })
	case 5:
		h.tell("%s can start nothing", node)
		h.Spoil(node)
		h.after(h.rng.Int64N(5*Minute), func() { h.Mend(node) })
	case 6:
		h.tell("another controller takes over")
		h.Depose()
	case 7:
		h.tell("the leader is killed")
		h.Halt()
	case 8, 9:
		h.tell("an intent comes again")
		h.Repeat()
	case 10: // a leader stands still, and goes on later with what it had in mind
		if c := h.leader(); c != nil {
			c.pause = h.now + h.rng.Int64N(90*Second)
			h.tell("%s stands still until %s", c.name, h.clock(c.pause))
		}
	case 11:
		c := h.controllers[h.rng.IntN(len(h.controllers))]
		c.slow = h.now + h.rng.Int64N(Minute)
		h.tell("%s lags until %s", c.name, h.clock(c.slow))
	case 12:
		h.a.trouble[node] = true
		h.tell("the supervisor of %s is killed", node)
		h.byName[node].super.kill()
	case 13:
		x := h.byName[node]
		h.a.trouble[node] = true
		x.pause = h.now + h.rng.Int64N(2*Minute)
		h.tell("the executor of %s stands still until %s", node, h.clock(x.pause))
	case 14: // power is lost everywhere
		h.tell("everything is killed")
		for _, c := range h.controllers {
			c.kill()
		}
		for _, x := range h.executors {
			h.a.trouble[x.name] = true
			x.kill()
		}
		for _, a := range h.agents {
			a.kill()
		}
		h.a.ledger.kill()
	case 15:
		h.a.ledger.kill()
	}
}

// whole is a job, or all of the heterogeneous job that it is of.
func whole(c *projections.Cluster, id uint32) *events.Target {
	if j := c.Job(id); j.GetHetId() != 0 {
		id = j.GetHetId()
	}
	return &events.Target{Job: id}
}

// tooLarge asks whether the components of a heterogeneous job find no nodes apart, or no licences, even if nothing else runs.
func (h *happenings) tooLarge(leader *projections.Job) bool {
	var parts []place.Part
	var choices [][]events.License
	left := map[string]int{}
	for _, l := range h.Fold.Config().GetLicenses() {
		left[l.Name] = int(l.Count)
	}
	for _, j := range projections.Components(h.Fold, leader.Id, leader.HetSize) {
		q, problem := place.RequestOf(j.Spec)
		if problem != nil {
			return true
		}
		parts = append(parts, place.Part{Request: q, Partitions: strings.Split(j.Spec.GetPartition(), ","), Window: place.Window{From: h.now, To: place.Forever, User: j.Owner.GetUid()}})
		list, any, _ := events.ParseLicenses(j.Spec.GetLicenses())
		if any {
			choices = append(choices, list)
			continue
		}
		for _, l := range list {
			left[l.Name] -= int(l.Count)
		}
	}
	for _, n := range left {
		if n < 0 {
			return true
		}
	}
	for _, list := range choices { // in order, as they choose
		i := slices.IndexFunc(list, func(l events.License) bool { return int(l.Count) <= left[l.Name] })
		if i < 0 {
			return true
		}
		left[list[i].Name] -= int(list[i].Count)
	}
	given, _ := place.NewBoard(h.Fold).PlaceTogether(parts)
	return given == nil
}

func (h *happenings) licencesHeld() bool {
	for _, l := range h.Fold.Config().GetLicenses() {
		if h.Fold.LicensesUsed(l.Name) > 0 {
			return true
		}
	}
	return false
}

// settle lets the faults end and everything come to its end.
func (h *happenings) settle() error {
	for _, x := range h.executors {
		h.Heal(x.name)
		h.Mend(x.name)
		h.Restart(x.name)
	}
	for _, c := range h.controllers {
		c.slow = 0
	}
	h.Advance(5 * Minute)
	if h.err != nil {
		return h.err
	}
	if h.leader() == nil {
		return fmt.Errorf("nobody leads five minutes after the faults have stopped")
	}
	for _, uid := range []uint32{0, 1000, 1001} {
		h.Intent(author(uid), events.Verb_CRONTAB, &events.Crontab{Remove: true})
	}
	h.Intent(author(0), events.Verb_CONFIGURE, h.config)
	h.Intent(author(0), events.Verb_UPDATE_NODE, &events.UpdateNode{Nodes: "ALL", Order: events.NodeOrder_NODE_RESUME})
	h.Advance(Minute)
	for range 40 {
		// What is held or can never start is cancelled, what is suspended goes on.
		waits := 0
		h.Fold.EachJob(func(j *projections.Job) bool {
			if !j.Over() || j.Completing {
				waits++
			}
			return true
		})
		if waits == 0 {
			break
		}
		var never, paused []*events.Target
		h.Fold.EachJob(func(j *projections.Job) bool {
			switch reason := j.PendingReason(h.now); {
			case j.State == events.JobState_SUSPENDED:
				paused = append(paused, &events.Target{Job: j.Id})
			case reason == events.Reason_JOB_HELD_ADMIN, reason == events.Reason_JOB_HELD_USER, reason == events.Reason_JOB_REQUEUED_HELD, reason == events.Reason_DEPENDENCY_NEVER_SATISFIED:
				never = append(never, whole(h.Fold, j.Id))
			}
			return true
		})
		for _, o := range h.Outcomes() {
			if o.Reason == events.Reason_BAD_CONSTRAINTS || o.Reason == events.Reason_PARTITION_TIME_LIMIT || o.Reason == events.Reason_PARTITION_NODE_LIMIT || o.Reason == events.Reason_PARTITION_CONFIG {
				never = append(never, whole(h.Fold, o.Job))
			}
			if o.Reason == events.Reason_LICENSES && h.Fold.Counts().Running == 0 && !h.licencesHeld() {
				never = append(never, whole(h.Fold, o.Job)) // of what there is not any more
			}
		}
		if h.Fold.Counts().Running == 0 && len(never) == 0 && len(paused) == 0 {
			// Jobs may wait for each other in a circle through "after" of jobs that are there.
			h.Fold.EachPending(func(j *projections.Job) bool {
				// Components of a heterogeneous job, each of which fits, may find no nodes apart on the whole cluster.
				if j.PendingReason(h.now) == events.Reason_DEPENDENCY || j.Leads() && h.tooLarge(j) {
					never = append(never, &events.Target{Job: j.Id})
					return false
				}
				return true
			})
		}
		h.Intent(author(0), events.Verb_CANCEL, &events.Cancel{Targets: never})
		h.Intent(author(0), events.Verb_RESUME, &events.Select{Targets: paused})
		h.Advance(20 * Minute)
		if h.err != nil {
			return h.err
		}
	}
	var stuck []string
	h.Fold.EachJob(func(j *projections.Job) bool {
		if !j.Over() || j.Completing {
			why := ""
			for _, o := range h.Outcomes() {
				if o.Job == j.Id {
					why = o.Reason.Word() + " " + o.Text + fmt.Sprint(o.Blockers)
				}
			}
			stuck = append(stuck, fmt.Sprintf("%s %s (%s, outcome %s, unreported %v) %v", name(j), j.State.Word(), j.PendingReason(h.now).Word(), why, j.Unreported(), j.Spec))
		}
		return true
	})
	for _, x := range h.executors {
		for _, r := range x.runs {
			if !r.over {
				stuck = append(stuck, fmt.Sprintf("run %d of job %d lives on %s", r.run, r.job, x.name))
			}
		}
	}
	if len(stuck) > 0 {
		return fmt.Errorf("%d do not end: %v", len(stuck), stuck[:min(len(stuck), 8)])
	}
	for _, n := range h.Fold.Nodes() {
		if !events.Words(n.CpusUsed).Empty() || n.MemoryUsedMib != 0 || len(n.Jobs) > 0 {
			return fmt.Errorf("node %s is not free at the end: cpus %s memory %d jobs %v", n.Name, events.Words(n.CpusUsed), n.MemoryUsedMib, n.Jobs)
		}
	}
	again := projections.New()
	for i := range h.log {
		m := &h.log[i]
		again.Apply(h.read(m))
	}
	if again.Hash() != h.Fold.Hash() {
		return fmt.Errorf("the log folded again gives another state")
	}
	if h.err != nil {
		return h.err
	}
	report, err := replay.Verify(context.Background(), func(_ context.Context, fn func(replay.Message) error) error {
		for _, m := range h.log {
			if err := fn(replay.Message(m)); err != nil {
				return err
			}
		}
		return nil
	}, replay.Options{})
	switch {
	case err != nil:
		return err
	case report.First != nil:
		return fmt.Errorf("the log does not hold: %v", report.First)
	case report.Derived != report.Cycles || report.Derived == 0:
		return fmt.Errorf("of %d cycles %d were derived", report.Cycles, report.Derived)
	}
	return nil
}
