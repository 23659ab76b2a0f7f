package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/events"
)

// bad is an entry of the log that no version of Stint writes.
type bad struct {
	what    string
	role    string // whose key lets it be written: such an author went mad, or is not of this version
	subject string
	data    []byte
	void    bool // it must be told as void; else it may have passed as an odd wish, which admission then refuses
}

// TestBadEntries: whatever is written into the log, the cluster goes on, starts again and replays; what had no effect is counted
// and listed with its sequence, its author and why.
func TestBadEntries(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("STINT_SEED"); v != "" {
		fmt.Sscan(v, &seed)
	}
	t.Logf("STINT_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := start(t, "--split", "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	works := func(when string) {
		t.Helper()
		id := c.submit("-o", "/dev/null", "--wrap", "exit 3")
		if got := exitCode(c, id); got != "FAILED|3:0" {
			t.Errorf("%s a job ends as %s", when, got)
		}
		c.eventually(when+" the feed goes on", func() bool { return len(c.feed("job.FAILED.*.*."+id)) == 1 })
	}
	works("at first")
	c.script("long.sh", "#!/bin/sh\nuntil [ -e go ]; do sleep 0.1; done\nexit 5\n")
	running := c.submit("-o", "/dev/null", "long.sh")
	held := c.submit("-H", "-o", "/dev/null", "--wrap", "true")
	c.await(running, "RUNNING")

	seqs := map[uint64]bad{}
	write := func(list []bad) {
		t.Helper()
		for _, b := range list {
			seq, err := c.append(b.role, b.subject, b.data)
			if err != nil {
				t.Fatalf("%s cannot be written: %v", b.what, err)
			}
			if strings.HasPrefix(b.subject, "ev.") {
				seqs[seq] = b
			}
		}
	}
	host, _ := os.Hostname()
	for name, list := range map[string][]bad{
		"intents":   badIntents("agent."+host, "ev.intent.@"+host, number(t, held)),
		"decisions": badDecisions(c, number(t, running), number(t, held)),
		"reports":   badReports(c, number(t, running), number(t, held)),
		"others": {
			{"no subject of Stint", "admin", "ev.nonsense.of.ours", []byte("x"), true},
			{"shares of nobody", "ledger", "ev.share", []byte("\xff\xff\xff"), true},
			{"an intent of a user without a host's word", "admin", "ev.intent.root", intents(&events.Intent{Verb: events.Verb_CANCEL, Nonce: nonce(), Author: &events.Author{User: "root"}}), true},
			{"a state of a job that is not", "controller", "job.RUNNING.debug.root.4000000000", []byte("{\"seq\": 99999999}"), false},
			{"a state that is no JSON", "controller", "job.FAILED.debug.root.1", []byte("\x00\xff{"), false},
			{"usage that does not decode", "executor.n1", "usage.n1", []byte("\x00\xff\xff\xff"), false},
			{"a blob of nobody", "agent." + host, "blob.4294967295.zzz", []byte("\x00"), false},
		},
	} {
		write(list)
		works("after bad " + name)
	}
	// Real messages, cut short, with bits flipped, twice, on other subjects.
	var real []bad
	for subject, role := range map[string]string{"ev.sched": "controller", "ev.node.n1": "executor.n1", "ev.intent.@" + host: "agent." + host} {
		for _, m := range c.messages(subject) {
			data := append([]byte(nil), m.data...)
			switch r.IntN(3) {
			case 0:
				data = data[:r.IntN(len(data)+1)]
			case 1:
				for range 1 + r.IntN(4) {
					if len(data) > 0 {
						data[r.IntN(len(data))] ^= 1 << r.IntN(8)
					}
				}
			}
			if r.IntN(4) == 0 {
				role, subject = "admin", []string{"ev.sched", "ev.node.n2", "ev.node.nobody", "ev.intent.@" + host, "ev.share"}[r.IntN(5)]
			}
			real = append(real, bad{what: "a real message that was spoiled", role: role, subject: subject, data: data})
		}
	}
	r.Shuffle(len(real), func(i, j int) { real[i], real[j] = real[j], real[i] })
	write(real[:min(len(real), 25)])
	works("after spoiled messages")

	// All is killed, and starts again on that log.
	for name, pid := range c.processes() {
		if !strings.HasPrefix(name, "supervisor:") {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	c.up("--split")
	works("after a start on that log")
	if err := os.WriteFile(c.work+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(c, running); got != "FAILED|5:0" {
		t.Errorf("the job that ran all the time ends as %s", got)
	}
	told := map[uint64][]string{}
	for line := range strings.Lines(c.do("stint", "events", "--void", "--json")) {
		var e struct {
			Seq                     uint64
			Subject, Who, What, Why string
			Void                    bool
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("stint events --void --json printed %q: %v", line, err)
		}
		if b, is := seqs[e.Seq]; is && (e.Subject != b.subject || !e.Void || e.Why == "" && e.What == "" || e.Who == "") {
			t.Errorf("of %s, message %d, stint events --void says %s", b.what, e.Seq, line)
		}
		told[e.Seq] = append(told[e.Seq], e.Why+e.What)
	}
	for seq, b := range seqs {
		if b.void && told[seq] == nil {
			t.Errorf("%s, message %d on %s, is not told by stint events --void", b.what, seq, b.subject)
		}
	}
	text := c.do("stint", "events", "--void")
	var s struct {
		Controller struct{ Voids map[string]int }
	}
	if err := json.Unmarshal([]byte(c.do("stint", "status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	for why, n := range s.Controller.Voids {
		if got := strings.Count(text, why); got < n {
			t.Errorf("stint status counts %d of %q, and stint events --void lists %d", n, why, got)
		}
	}
	c.do("stint", "replay", "--verify")
	t.Logf("%d entries were bad, %d of them void", len(seqs), len(told))
}

func nonce() []byte {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(rand.IntN(256))
	}
	return b
}

func encode(m interface{ MarshalVT() ([]byte, error) }) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		panic(err)
	}
	return data
}

func intents(list ...*events.Intent) []byte { return encode(&events.IntentBatch{Intents: list}) }

func badIntents(role, subject string, held int) (list []bad) {
	root := &events.Author{User: "root", Group: "root", Host: "here"}
	add := func(what string, void bool, data []byte) { list = append(list, bad{what, role, subject, data, void}) }
	submit := func(s *events.JobSpec) []byte { return encode(&events.Submit{Components: []*events.JobSpec{s}}) }
	add("nothing", true, nil)
	add("bytes that are no message", true, []byte("\xff\xfe\xfd hello"))
	add("a field from the future alone", true, []byte{0xc2, 0x3e, 3, 'n', 'e', 'w'})
	add("an intent without a nonce", true, intents(&events.Intent{Verb: events.Verb_CANCEL, Author: root}))
	add("an intent of nobody", true, intents(&events.Intent{Verb: events.Verb_CANCEL, Nonce: nonce()}))
	add("a verb from the future", true, intents(&events.Intent{Verb: 4711, Nonce: nonce(), Author: root}))
	add("a negative verb", true, intents(&events.Intent{Verb: -1, Nonce: nonce(), Author: root}))
	add("all job ids at once", true, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: math.MaxUint32, Nonce: nonce(), Author: root, Body: submit(&events.JobSpec{})}))
	twice := &events.Intent{Verb: events.Verb_CANCEL, Nonce: nonce(), Author: root}
	add("the same intent twice", true, intents(twice, twice))
	many := make([]*events.Intent, 20000)
	for i := range many {
		many[i] = &events.Intent{}
	}
	add("twenty thousand empty intents", true, intents(many...))
	add("a submission without a body", false, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: nonce(), Author: root}))
	add("a submission whose body does not decode", false, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: nonce(), Author: root, Body: []byte("\xff\xff")}))
	add("a submission of absurd size", false, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: nonce(), Author: root, Body: submit(&events.JobSpec{
		MinNodes: math.MaxUint32, MaxNodes: 1, CpusPerTask: math.MaxUint32, TasksPerNode: math.MaxUint32, MemPerNodeMib: math.MaxUint64, MemPerCpuMib: math.MaxUint64, TimeLimitS: math.MaxUint32})}))
	add("a submission with a name of 900 KB that is no text", false, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: nonce(), Author: root, Body: submit(&events.JobSpec{
		Name: strings.Repeat("\xff\x00", 450<<10), MinNodes: 1})}))
	add("a submission whose script is nowhere", false, intents(&events.Intent{Verb: events.Verb_SUBMIT, Ids: 1, Nonce: nonce(), Author: root, Body: submit(&events.JobSpec{
		Name: "nowhere", Partition: "debug", MinNodes: 1, CpusPerTask: 1, TasksPerNode: 1, TimeLimitS: 60, WorkDir: "/tmp", Script: &events.BlobRef{Subject: "blob.0.nowhere", Offset: math.MaxUint64, Length: math.MaxUint64}})}))
	add("a cancellation by a user who is not the owner", false, intents(&events.Intent{Verb: events.Verb_CANCEL, Nonce: nonce(), Author: &events.Author{Uid: 4242, Gid: 4242, User: "\x1b[2J", Group: "x", Host: "here"},
		Body: encode(&events.Cancel{Targets: []*events.Target{{Job: uint32(held), Tasks: []uint64{math.MaxUint64}, HasTasks: true, Step: math.MaxUint32, HasStep: true}}})}))
	return list
}

func badDecisions(c *cluster, running, held int) (list []bad) {
	add := func(what string, void bool, m *events.SchedMessage) {
		list = append(list, bad{what, "controller", "ev.sched", encode(m), void})
	}
	list = append(list, bad{"a decision that is nothing", "controller", "ev.sched", nil, true}, bad{"a decision that does not decode", "controller", "ev.sched", []byte("\x0a\xff"), true})
	var term []byte
	var n uint64
	for _, m := range c.messages("ev.sched") {
		d := new(events.SchedMessage)
		if d.UnmarshalVT(m.data) != nil {
			continue
		}
		if t := d.GetTerm(); t != nil {
			term, n = t.Nonce, 0
		} else if d.GetCycle() != nil {
			n = d.GetCycle().N
		}
	}
	cycle := func(n uint64, facts ...*events.Fact) *events.SchedMessage {
		return &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Term: term, N: n, Cycle: n, Part: 1, Parts: 1, Basis: math.MaxUint64, NowUs: -1, Facts: facts}}}
	}
	add("a term without a nonce", true, &events.SchedMessage{Kind: &events.SchedMessage_Term{Term: &events.Term{Controller: "nobody"}}})
	add("a decision of no term", true, &events.SchedMessage{Kind: &events.SchedMessage_Cycle{Cycle: &events.Cycle{Term: []byte("none"), N: 1}}})
	add("a decision out of its numbers", true, cycle(n+1000))
	shares := make([]*events.NodeShare, 5000)
	for i := range shares {
		shares[i] = &events.NodeShare{Nodes: []string{"n1"}, Cpus: []uint64{math.MaxUint64, math.MaxUint64}, MemoryMib: math.MaxUint64}
	}
	// As the leader itself would number it.
	add("decisions about nothing there is", true, cycle(n+1,
		&events.Fact{},
		&events.Fact{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: 4_000_000_000, Run: 1}}},
		&events.Fact{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: uint32(held), Run: math.MaxUint32, Partition: "nowhere", Allocation: &events.Allocation{Shares: shares}}}},
		&events.Fact{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: uint32(running), Run: 1}}},
		&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: uint32(running), Run: 77, State: 99}}},
		&events.Fact{Kind: &events.Fact_Ended{Ended: &events.Ended{Job: uint32(held), State: -5}}},
		&events.Fact{Kind: &events.Fact_Admitted{Admitted: &events.Admitted{Intent: &events.IntentRef{Seq: math.MaxUint64}, Job: uint32(held)}}},
		&events.Fact{Kind: &events.Fact_Judged{Judged: &events.Judged{Intent: &events.IntentRef{Seq: 1, Index: math.MaxUint32}, Code: -7, Text: strings.Repeat("\xff", 100<<10)}}},
		&events.Fact{Kind: &events.Fact_NodeChanged{NodeChanged: &events.NodeChanged{}}},
		&events.Fact{Kind: &events.Fact_Configured{Configured: &events.Configured{}}},
		&events.Fact{Kind: &events.Fact_Requeued{Requeued: &events.Requeued{Job: uint32(held), Run: 3}}},
	))
	return list
}

func badReports(c *cluster, running, held int) (list []bad) {
	add := func(what string, m *events.NodeMessage) {
		list = append(list, bad{what, "executor.n2", "ev.node.n2", encode(m), true})
	}
	var last events.NodeMessage
	for _, m := range c.messages("ev.node.n2") {
		d := events.NodeMessage{}
		if d.UnmarshalVT(m.data) == nil && len(d.Executor) > 0 {
			last = events.NodeMessage{Boot: d.Boot, Executor: d.Executor, N: d.N}
		}
	}
	exited := func(job, run uint32) *events.NodeFact {
		return &events.NodeFact{Kind: &events.NodeFact_Exited{Exited: &events.StepExited{Job: job, Run: run, Step: events.StepBatch, AtUs: math.MaxInt64, ElapsedUs: math.MinInt64,
			Usage: &events.Usage{UserUs: math.MaxUint64, SystemUs: math.MaxUint64, MaxRssKib: math.MaxUint64, Node: strings.Repeat("\xff", 1000)}}}}
	}
	list = append(list, bad{"a report that does not decode", "executor.n2", "ev.node.n2", []byte("\x0a\xff\xff\xff\x7f"), true})
	add("an empty report", &events.NodeMessage{})
	add("a report of another executor", &events.NodeMessage{Boot: last.Boot, Executor: []byte("somebody else"), N: 7, Facts: []*events.NodeFact{exited(uint32(running), 1)}})
	add("a report out of its numbers", &events.NodeMessage{Boot: last.Boot, Executor: last.Executor, N: 0, Facts: []*events.NodeFact{exited(uint32(running), 1)}})
	add("a report about what others run", &events.NodeMessage{Boot: last.Boot, Executor: last.Executor, N: last.N + 1, NowUs: math.MinInt64, Facts: []*events.NodeFact{
		{}, exited(uint32(running), 1), exited(uint32(held), 1), exited(4_000_000_000, math.MaxUint32),
		{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: uint32(held), Run: 1, Step: events.StepBatch, AtUs: -1}}},
	}})
	list = append(list, bad{"a report of a node that is not there", "admin", "ev.node.n99", encode(&events.NodeMessage{Boot: "x", Executor: []byte("y"), N: 1}), true},
		bad{"a report of a node whose name is none", "admin", "ev.node.%zz", encode(&events.NodeMessage{Boot: "x", Executor: []byte("y"), N: 1}), true})
	return list
}
