package admit

import (
	"fmt"
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

// office is a state to judge intents on.
type office struct {
	t     testing.TB
	c     *projections.Cluster
	seq   uint64
	n     uint64
	nonce uint64
}

const now = int64(1_700_000_000_000_000)

func config() *events.Config {
	return &events.Config{
		Cluster: "test", KillWaitS: 30, SelectCore: true, SelectMemory: true, MaxArraySize: 100, MaxJobCount: 50, MaxMemPerCpuMib: 1000, AdminUids: []uint32{7}, DisableRootJobs: true,
		Nodes: []*events.NodeDef{{Names: "n[1-4]", Cpus: 8, Sockets: 1, CoresPerSocket: 8, ThreadsPerCore: 1, MemoryMib: 16000, Features: []string{"fast"}, Gres: []*events.GresDef{{Name: "gpu", Type: "a100", Count: 4}}}},
		Partitions: []*events.PartitionDef{
			{Name: "batch", Nodes: "ALL", Default: true, MaxTimeS: 3600, DefaultTimeS: 600, DefMemPerCpuMib: 200},
			{Name: "root", Nodes: "ALL", RootOnly: true},
			{Name: "acc", Nodes: "ALL", AllowAccounts: []string{"physics"}, DenyQos: []string{"low"}},
			{Name: "resv", Nodes: "ALL", RequireReservation: true},
			{Name: "empty", Nodes: ""},
		},
	}
}

func newOffice(t testing.TB, cfg *events.Config) *office {
	o := &office{t: t, c: projections.New()}
	o.apply(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Nonce: []byte("t")}}})
	if facts := o.ask(0, events.Verb_CONFIGURE, encode(t, cfg)); facts[0].GetConfigured() == nil {
		t.Fatalf("not configured: %v", facts)
	}
	return o
}

func encode(t testing.TB, m interface{ MarshalVT() ([]byte, error) }) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (o *office) apply(subject string, m interface{ MarshalVT() ([]byte, error) }) {
	o.seq++
	o.c.Apply(events.Decode(o.seq, now, subject, encode(o.t, m)))
}

// ask appends an intent, judges it, and folds what came of it.
func (o *office) ask(uid uint32, verb events.Verb, body []byte) []*events.Fact {
	o.nonce++
	user := fmt.Sprintf("u%d", uid)
	i := &events.Intent{Verb: verb, Nonce: fmt.Appendf(nil, "%016d", o.nonce), Body: body, Author: &events.Author{Uid: uid, Gid: uid, User: user, Group: user}}
	if verb == events.Verb_SUBMIT {
		i.Ids = 1
	}
	o.apply("ev.intent.@h", &events.IntentBatch{Intents: []*events.Intent{i}})
	inbox := o.c.Inbox()
	facts := Admit(o.c, inbox[len(inbox)-1], now)
	o.n++
	o.apply(events.SubjectSched, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Term: []byte("t"), N: o.n, NowUs: now, Facts: facts}}})
	return facts
}

func (o *office) submit(uid uint32, s *events.JobSpec) *events.Fact {
	if s.Script == nil && !s.Interactive {
		s.Script = &events.BlobRef{Subject: "blob"}
	}
	facts := o.ask(uid, events.Verb_SUBMIT, encode(o.t, &events.Submit{Components: []*events.JobSpec{s}}))
	if len(facts) != 1 {
		o.t.Fatalf("a submission came to %d facts", len(facts))
	}
	return facts[0]
}

func TestDefaultsOfASubmission(t *testing.T) {
	o := newOffice(t, config())
	a := o.submit(1000, &events.JobSpec{Name: "a", Array: &events.ArraySpec{Tasks: []uint64{7, 0, 0}}}).GetAdmitted()
	s := a.GetSpec()
	if s.GetPartition() != "batch" || s.TimeLimitS != 600 || s.MemPerCpuMib != 200 || s.MemAll || s.Requeue != events.Choice_CHOICE_NO || a.Priority == 0 || len(s.Array.Tasks) != 1 {
		t.Errorf("admitted as %v, priority %d", s, a.GetPriority())
	}
	b := o.submit(1000, &events.JobSpec{Name: "b"}).GetAdmitted()
	if b.Priority >= a.Priority {
		t.Errorf("the later job has priority %d, the earlier %d", b.Priority, a.Priority)
	}
	// More memory for a CPU than MaxMemPerCPU means more CPUs.
	c := o.submit(1000, &events.JobSpec{Name: "c", MemPerCpuMib: 2500, Partition: "acc", Account: "physics"}).GetAdmitted().GetSpec()
	if c.GetCpusPerTask() != 3 || c.GetMemPerCpuMib() != 834 || c.GetTimeLimitS() != events.Unlimited {
		t.Errorf("admitted with %d CPUs and %d MiB each, limit %d", c.GetCpusPerTask(), c.GetMemPerCpuMib(), c.GetTimeLimitS())
	}
	// Memory is consumed and nobody says how much: all of the node.
	if d := o.submit(1000, &events.JobSpec{Name: "d", Partition: "acc", Account: "physics"}).GetAdmitted().GetSpec(); !d.GetMemAll() {
		t.Errorf("admitted as %v", d)
	}
	if e := o.submit(1000, &events.JobSpec{Name: "e", Hold: true}).GetAdmitted(); e.GetPriority() != 0 || e.GetHold() != events.HoldKind_HELD_USER {
		t.Errorf("a held job has priority %d, hold %s", e.GetPriority(), e.GetHold())
	}
	if f := o.submit(7, &events.JobSpec{Name: "f", HasPriority: true, Priority: 77}).GetAdmitted(); f.GetPriority() != 77 {
		t.Errorf("an administrator's priority became %d", f.GetPriority())
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	for _, c := range []struct {
		name string
		uid  uint32
		spec *events.JobSpec
		code events.Code
		text string // part of it
	}{
		{"partition", 1000, &events.JobSpec{Partition: "nope"}, events.Code_INVALID_PARTITION, "invalid partition specified: nope"},
		{"one of several partitions", 1000, &events.JobSpec{Partition: "batch,nope"}, events.Code_INVALID_PARTITION, "nope"},
		{"root", 0, &events.JobSpec{Partition: "batch"}, events.Code_ROOT_DENIED, "DisableRootJobs"},
		{"RootOnly", 1000, &events.JobSpec{Partition: "root"}, events.Code_PARTITION_ACCESS, "RootOnly"},
		{"reservation", 1000, &events.JobSpec{Reservation: "r"}, events.Code_INVALID_RESERVATION, "r"},
		{"partition with reservation", 1000, &events.JobSpec{Partition: "resv"}, events.Code_INVALID_RESERVATION, "resv"},
		{"empty partition", 1000, &events.JobSpec{Partition: "empty"}, events.Code_NODE_CONFIG_UNAVAILABLE, "no nodes"},
		{"licence", 1000, &events.JobSpec{Licenses: "matlab"}, events.Code_INVALID_LICENSE, "matlab"},
		{"CPUs on a node", 1000, &events.JobSpec{CpusPerTask: 9}, events.Code_NODE_CONFIG_UNAVAILABLE, "9 CPUs on one node"},
		{"tasks on few nodes", 1000, &events.JobSpec{Tasks: 9, MinNodes: 1, MaxNodes: 1}, events.Code_NODE_CONFIG_UNAVAILABLE, "9 tasks"},
		{"tasks on a node", 1000, &events.JobSpec{TasksPerNode: 9, Tasks: 4}, events.Code_NODE_CONFIG_UNAVAILABLE, "9 CPUs on one node"},
		{"preferred feature", 1000, &events.JobSpec{Prefer: "slow"}, events.Code_INVALID_FEATURE, "slow"},
		{"nodes the wrong way round", 1000, &events.JobSpec{MinNodes: 3, MaxNodes: 2}, events.Code_INVALID_NODE_COUNT, "at least 3"},
		{"absurd tasks", 1000, &events.JobSpec{Tasks: 1 << 31}, events.Code_TOO_MANY_CPUS, "2147483648 tasks"},
		{"memory of a node", 1000, &events.JobSpec{MemPerNodeMib: 16001}, events.Code_NODE_CONFIG_UNAVAILABLE, "16001 MiB"},
		{"absurd memory", 1000, &events.JobSpec{MemPerNodeMib: 1 << 60}, events.Code_INVALID_MEMORY, "MiB"},
		{"memory twice", 1000, &events.JobSpec{MemPerNodeMib: 1, MemPerCpuMib: 1}, events.Code_INVALID_MEMORY, "2 ways"},
		{"CPUs of GPUs", 1000, &events.JobSpec{Tasks: 5, CpusPerGpu: 2, Gres: []*events.Gres{{Name: "gpu", Count: 2, Scope: events.Scope_PER_JOB}}}, events.Code_NODE_CONFIG_UNAVAILABLE, "5 tasks take 5 CPUs"},
		{"GPUs of a node", 1000, &events.JobSpec{Gres: []*events.Gres{{Name: "gpu", Count: 5}}}, events.Code_NODE_CONFIG_UNAVAILABLE, "5 gpu"},
		{"GPU type", 1000, &events.JobSpec{Gres: []*events.Gres{{Name: "gpu", Type: "h100", Count: 1}}}, events.Code_NODE_CONFIG_UNAVAILABLE, "h100"},
		{"resource", 1000, &events.JobSpec{Gres: []*events.Gres{{Name: "fpga", Count: 1}}}, events.Code_INVALID_GRES, "fpga"},
		{"feature", 1000, &events.JobSpec{Constraint: "slow"}, events.Code_INVALID_FEATURE, "slow"},
		{"constraint", 1000, &events.JobSpec{Constraint: "fast&("}, events.Code_INVALID_FEATURE, "character"},
		{"node", 1000, &events.JobSpec{NodeList: "n[4-5]"}, events.Code_INVALID_NODE, "n5"},
		{"node list", 1000, &events.JobSpec{NodeList: "n[4-"}, events.Code_INVALID_NODE, "node list"},
		{"huge node list", 1000, &events.JobSpec{NodeList: "n[1-999999999]"}, events.Code_INVALID_NODE, ""},
		{"array", 1000, &events.JobSpec{Array: &events.ArraySpec{Tasks: []uint64{0, 1 << 36}}}, events.Code_INVALID_ARRAY, "0 to 99"},
		{"empty array", 1000, &events.JobSpec{Array: &events.ArraySpec{}}, events.Code_INVALID_ARRAY, "no task"},
		{"self", 1000, &events.JobSpec{Dependencies: []*events.Dependency{{Kind: events.DependencyKind_AFTER_OK, Job: 1}}}, events.Code_INVALID_DEPENDENCY, "itself"},
		{"kind of dependency", 1000, &events.JobSpec{Dependencies: []*events.Dependency{{Kind: 99, Job: 5}}}, events.Code_INVALID_DEPENDENCY, "99"},
		{"many dependencies", 1000, &events.JobSpec{Dependencies: make([]*events.Dependency, MaxDependencies+1)}, events.Code_INVALID_DEPENDENCY, "257"},
		{"deadline", 1000, &events.JobSpec{DeadlineUs: now - 1}, events.Code_INVALID_TIME_LIMIT, "passed"},
		{"nice", 1000, &events.JobSpec{Nice: -1}, events.Code_ACCESS_DENIED, "administrator"},
		{"long name", 1000, &events.JobSpec{Name: long}, events.Code_MALFORMED, "the job name is"},
		{"NUL", 1000, &events.JobSpec{WorkDir: "/a\x00b"}, events.Code_MALFORMED, "NUL"},
		{"many arguments", 1000, &events.JobSpec{Args: make([][]byte, MaxArgs+1)}, events.Code_MALFORMED, "arguments"},
		{"least time", 1000, &events.JobSpec{TimeMinS: 1200, TimeLimitS: 600}, events.Code_INVALID_TIME_LIMIT, "least time of 20 minutes"},
		{"CPUs of a partition, before a terminal", 1000, &events.JobSpec{Interactive: true, Tasks: 33}, events.Code_NODE_CONFIG_UNAVAILABLE, "no set of nodes could ever run this job"},
		{"nodes of a partition, before a terminal", 1000, &events.JobSpec{Interactive: true, MinNodes: 99, MaxNodes: 99}, events.Code_NODE_CONFIG_UNAVAILABLE, "no set of nodes could ever run this job"},
		{"interactive array", 1000, &events.JobSpec{Interactive: true, Array: &events.ArraySpec{Tasks: []uint64{1}}}, events.Code_INVALID_ARRAY, "interactive"},
	} {
		o := newOffice(t, config())
		for i, d := range c.spec.Dependencies {
			if d == nil {
				c.spec.Dependencies[i] = &events.Dependency{Kind: events.DependencyKind_AFTER, Job: 9}
			}
		}
		j := o.submit(c.uid, c.spec).GetJudged()
		if j.GetCode() != c.code || !strings.Contains(j.GetText(), c.text) {
			t.Errorf("%s: %s: %q, want %s and %q", c.name, j.GetCode(), j.GetText(), c.code, c.text)
		}
		if len(o.c.Inbox()) != 0 {
			t.Errorf("%s: the intent still waits for a verdict", c.name)
		}
	}
}

// A batch job that asks for more than a partition has waits for better days, as in Slurm.
func TestBatchJobsWaitForBetterDays(t *testing.T) {
	o := newOffice(t, config())
	if f := o.submit(1000, &events.JobSpec{Tasks: 33}); f.GetAdmitted() == nil {
		t.Errorf("it is refused: %s", f.GetJudged().GetText())
	}
}

func TestEnforcedLimits(t *testing.T) {
	cfg := config()
	o := newOffice(t, cfg)
	if o.submit(1000, &events.JobSpec{TimeLimitS: 7200}).GetAdmitted() == nil {
		t.Error("without EnforcePartLimits a job beyond the limit is refused")
	}
	cfg.EnforcePartLimitsAny = true
	o = newOffice(t, cfg)
	if j := o.submit(1000, &events.JobSpec{TimeLimitS: 7200}).GetJudged(); j.GetCode() != events.Code_INVALID_TIME_LIMIT {
		t.Errorf("beyond the limit of its only partition: %v", j)
	}
	if o.submit(1000, &events.JobSpec{TimeLimitS: 7200, Partition: "batch,acc", Account: "physics"}).GetAdmitted() == nil {
		t.Error("within the limit of one partition of two: refused")
	}
	cfg.EnforcePartLimitsAny, cfg.EnforcePartLimitsAll = false, true
	o = newOffice(t, cfg)
	if j := o.submit(1000, &events.JobSpec{TimeLimitS: 7200, Partition: "batch,acc", Account: "physics"}).GetJudged(); j.GetCode() != events.Code_INVALID_TIME_LIMIT {
		t.Errorf("beyond the limit of one partition of two, and all count: %v", j)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	o := newOffice(t, config())
	for i := range 50 {
		if o.submit(1000, &events.JobSpec{Name: "a"}).GetAdmitted() == nil {
			t.Fatalf("job %d refused", i)
		}
	}
	if j := o.submit(1000, &events.JobSpec{Name: "a"}).GetJudged(); j.GetCode() != events.Code_QUEUE_FULL {
		t.Errorf("the 51st job: %v", j)
	}
}

func TestConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*events.Config)
		text   string
	}{
		"no nodes":          {func(c *events.Config) { c.Nodes = nil }, "no nodes"},
		"no partition":      {func(c *events.Config) { c.Partitions = nil }, "no partition"},
		"node twice":        {func(c *events.Config) { c.Nodes = append(c.Nodes, &events.NodeDef{Names: "n4", Cpus: 1}) }, "n4 is defined twice"},
		"malformed":         {func(c *events.Config) { c.Nodes[0].Names = "n[1-" }, "n[1-"},
		"too many nodes":    {func(c *events.Config) { c.Nodes[0].Names = "n[1-130000]" }, "more than"},
		"too many CPUs":     {func(c *events.Config) { c.Nodes[0].Cpus = 9 }, "make 8"},
		"no CPUs":           {func(c *events.Config) { c.Nodes[0] = &events.NodeDef{Names: "x"} }, "number of CPUs"},
		"overflow":          {func(c *events.Config) { c.Nodes[0].Sockets, c.Nodes[0].CoresPerSocket = 1<<20, 1<<20 }, "more CPUs"},
		"two defaults":      {func(c *events.Config) { c.Partitions[1].Default = true }, "default partition"},
		"partition twice":   {func(c *events.Config) { c.Partitions[1].Name = "batch" }, "defined twice"},
		"partition unnamed": {func(c *events.Config) { c.Partitions[1].Name = "a,b" }, "no name"},
		"unknown node":      {func(c *events.Config) { c.Partitions[1].Nodes = "m1" }, "no node m1"},
		"oversubscription":  {func(c *events.Config) { c.Partitions[1].Oversubscribe = "MAYBE" }, "MAYBE"},
		"hosts":             {func(c *events.Config) { c.Partitions[1].AllocNodes = "n[1-" }, "AllocNodes"},
		"weights":           {func(c *events.Config) { c.Partitions[1].BillingWeights = "CPU=fish" }, "TRESBillingWeights"},
		"two ways":          {func(c *events.Config) { c.SelectLinear = true }, "more than one"},
	} {
		cfg := config()
		c.change(cfg)
		if text := CheckConfig(cfg); !strings.Contains(text, c.text) || text == "" {
			t.Errorf("%s: %q, want %q in it", name, text, c.text)
		}
	}
	if text := CheckConfig(config()); text != "" {
		t.Errorf("a good configuration: %s", text)
	}
	o := newOffice(t, config())
	if j := o.ask(1000, events.Verb_CONFIGURE, encode(t, config()))[0].GetJudged(); j.GetCode() != events.Code_ACCESS_DENIED {
		t.Errorf("a user configures: %v", j)
	}
	if o.ask(7, events.Verb_CONFIGURE, encode(t, config()))[0].GetConfigured() == nil {
		t.Error("an administrator may not configure")
	}
}

func TestHostileBodies(t *testing.T) {
	o := newOffice(t, config())
	o.submit(1000, &events.JobSpec{Name: "a"})
	for verb := range events.Verb_name {
		if verb == 0 {
			continue
		}
		for _, body := range [][]byte{nil, {0xff}, []byte(strings.Repeat("\x0a", 1000)), make([]byte, MaxBody+1)} {
			for _, uid := range []uint32{0, 1000} {
				facts := o.ask(uid, events.Verb(verb), body)
				last := facts[len(facts)-1].GetJudged()
				if last == nil || last.Code == events.Code_INTERNAL {
					t.Errorf("%s with %d bytes: %v", events.Verb(verb), len(body), facts)
				}
			}
		}
	}
	if len(o.c.Inbox()) != 0 {
		t.Errorf("%d intents wait for ever", len(o.c.Inbox()))
	}
}

func TestAPanicIsARefusal(t *testing.T) {
	o := newOffice(t, config())
	facts := Admit(o.c, &projections.InboxItem{Seq: 9, Intent: &events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Author: &events.Author{Uid: 1000},
		Body: encode(t, &events.Submit{Components: []*events.JobSpec{{Interactive: true}}})}}, now)
	if facts[0].GetAdmitted() == nil {
		t.Fatalf("a plain submission: %v", facts)
	}
	var broken brokenReader
	broken.Cluster = o.c
	facts = Admit(&broken, &projections.InboxItem{Seq: 9, Intent: &events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Author: &events.Author{Uid: 1000},
		Body: encode(t, &events.Submit{Components: []*events.JobSpec{{Interactive: true}}})}}, now)
	if j := facts[0].GetJudged(); j.GetCode() != events.Code_INTERNAL || !strings.Contains(j.GetText(), "on fire") {
		t.Fatalf("a submission that makes admission panic: %v", facts)
	}
}

// brokenReader is a state that cannot be read.
type brokenReader struct{ *projections.Cluster }

func (brokenReader) Counts() projections.Counts { panic("the reader is on fire") }

func FuzzAdmit(f *testing.F) {
	spec := &events.JobSpec{Name: "a", Script: &events.BlobRef{Subject: "b"}, Tasks: 3, Constraint: "fast&(a|b)", NodeList: "n[1-2]", Gres: []*events.Gres{{Name: "gpu", Count: 2}},
		Array: &events.ArraySpec{Tasks: []uint64{5}}, Dependencies: []*events.Dependency{{Kind: events.DependencyKind_AFTER, Job: 1}}}
	f.Add(int32(events.Verb_SUBMIT), uint32(1000), encode(f, &events.Submit{Components: []*events.JobSpec{spec}}))
	f.Add(int32(events.Verb_CANCEL), uint32(1000), encode(f, &events.Cancel{Targets: []*events.Target{{Job: 1, Tasks: []uint64{1}, HasTasks: true}}, Filter: &events.Filter{Nodes: "n[1-2]", Users: []string{"u"}}}))
	f.Add(int32(events.Verb_UPDATE_JOB), uint32(0), encode(f, &events.UpdateJob{Targets: []*events.Target{{Job: 1}}, SetDependencies: true, Dependencies: spec.Dependencies}))
	f.Add(int32(events.Verb_UPDATE_NODE), uint32(0), encode(f, &events.UpdateNode{Nodes: "n[1-4]", Order: 3}))
	f.Add(int32(events.Verb_CONFIGURE), uint32(0), encode(f, config()))
	f.Fuzz(func(t *testing.T, verb int32, uid uint32, body []byte) {
		if _, known := events.Verb_name[verb]; !known || verb == 0 || len(body) > 1<<16 {
			return
		}
		o := newOffice(t, config())
		o.submit(1000, &events.JobSpec{Name: "a"})
		o.submit(1000, &events.JobSpec{Name: "b", Array: &events.ArraySpec{Tasks: []uint64{15}}})
		facts := o.ask(uid, events.Verb(verb), body)
		if last := facts[len(facts)-1]; last.GetJudged().GetCode() == events.Code_INTERNAL {
			t.Fatalf("%v", last)
		}
		if len(o.c.Inbox()) != 0 {
			t.Fatal("the intent has no verdict")
		}
	})
}
