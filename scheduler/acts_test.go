package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/projections"
)

// wishes appends intents as the agent of a host would.
type wishes struct {
	t   *testing.T
	bus bus.Bus
	n   int
}

func (w *wishes) say(verb events.Verb, ids uint32, body interface{ MarshalVT() ([]byte, error) }) uint64 {
	w.t.Helper()
	w.n++
	data, err := body.MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}
	m := &events.IntentBatch{Intents: []*events.Intent{{
		Verb: verb, Nonce: []byte(fmt.Sprintf("nonce%011d", w.n)), Ids: ids, Body: data, Author: &events.Author{User: "root", Group: "root", Host: "h"},
	}}}
	if data, err = m.MarshalVT(); err != nil {
		w.t.Fatal(err)
	}
	seq, err := w.bus.Events().Publish(context.Background(), events.SubjectIntentHost("h"), fmt.Sprint(w.n), data)
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

// tick appends a message that means nothing, so that time passes in the log.
func (w *wishes) tick() {
	w.n++
	if _, err := w.bus.Events().Publish(context.Background(), events.SubjectIntentHost("h"), fmt.Sprint(w.n), nil); err != nil {
		w.t.Fatal(err)
	}
}

func smallSite() *events.Config {
	return &events.Config{
		Cluster: "c", AdminUids: []uint32{0}, MinJobAgeS: 1, KillWaitS: 1, MaxArraySize: 100, MaxJobCount: 1000, FirstJobId: 1, NodeTimeoutS: 300,
		SelectCore: true, DefMemPerCpuMib: 1, SelectMemory: true, Compat: "26.05",
		Nodes:      []*events.NodeDef{{Names: "n1", Cpus: 4, Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 1, Boards: 1, MemoryMib: 100, Weight: 1}},
		Partitions: []*events.PartitionDef{{Name: "p", Nodes: "ALL", Default: true, MaxTimeS: 0xffffffff, PriorityTier: 1, PriorityJobFactor: 1, MaxNodes: 0xffffffff, Oversubscribe: "NO"}},
	}
}

func jobs(r *running, ids ...uint32) *projections.AnswerJobs {
	return r.Answer(context.Background(), &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: ids, AllStates: true}}}).GetJobs()
}

// feedOf returns the job states that were published, as JOB STATE.
func feedOf(t *testing.T, b bus.Bus) (out []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Jobs().Follow(ctx, "job.>", 1, func(batch bus.Batch) error {
		for _, m := range batch.Messages {
			var e struct {
				Job   uint32
				State string
			}
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Errorf("message %d: %v", m.Seq, err)
			}
			out = append(out, fmt.Sprint(e.Job, " ", e.State))
		}
		if batch.Tip {
			cancel()
		}
		return nil
	})
	return out
}

// What follows from decisions: job states are published once each whoever leads, why jobs wait is told to followers, and the
// script of a job is erased when the job leaves hot state, and not before the last job that shares it.
func TestActs(t *testing.T) {
	hub := patientHub()
	a := run(t, hub, "a", t.TempDir())
	eventually(t, "a leads", a.busyLeading)
	b := run(t, hub, "b", "")
	w := &wishes{t: t, bus: hub.Connect("agent")}
	w.say(events.Verb_CONFIGURE, 0, smallSite())

	blob := events.SubjectBlob(0, "both")
	ref, err := w.bus.Blobs().Put(context.Background(), blob, []byte("#!/bin/sh\n"))
	if err != nil {
		t.Fatal(err)
	}
	script := &events.BlobRef{Subject: blob, Length: ref.Length, Sha256: ref.SHA256[:]}
	for _, name := range []string{"one", "two"} {
		w.say(events.Verb_SUBMIT, 1, &events.Submit{Components: []*events.JobSpec{{Name: name, WorkDir: "/", Script: script}}})
	}
	for _, r := range []*running{a, b} {
		eventually(t, r.cfg.Name+" knows why the jobs wait", func() bool {
			v := jobs(r, 1, 2).GetJobs()
			return len(v) == 2 && v[0].GetOutcome().GetReason() != events.Reason_NONE && v[1].GetOutcome().GetReason() != events.Reason_NONE
		})
	}

	erased := func() bool {
		_, err := w.bus.Blobs().Get(context.Background(), ref)
		return errors.Is(err, bus.ErrNotFound)
	}
	leave := func(id uint32) {
		w.say(events.Verb_CANCEL, 0, &events.Cancel{Targets: []*events.Target{{Job: id}}})
		eventually(t, fmt.Sprint("job ", id, " leaves hot state"), func() bool {
			w.tick()
			time.Sleep(50 * time.Millisecond)
			got := jobs(a, id)
			return got != nil && len(got.Jobs) == 0
		})
	}
	leave(1)
	if erased() {
		t.Error("the script is gone, and a job still needs it")
	}
	a.stop() // b takes over in the middle
	eventually(t, "b leads", b.busyLeading)
	a = b
	leave(2)
	eventually(t, "the script is erased", erased)

	want := "1 PENDING, 2 PENDING, 1 CANCELLED, 2 CANCELLED"
	eventually(t, "all states are published", func() bool { return len(feedOf(t, w.bus)) >= 4 })
	if got := strings.Join(feedOf(t, w.bus), ", "); got != want {
		t.Errorf("published: %s; want %s", got, want)
	}

	// One that starts from nothing derives the same, and publishes nothing twice.
	b.stop()
	c := run(t, hub, "c", "")
	eventually(t, "c leads", c.busyLeading)
	w.say(events.Verb_SUBMIT, 1, &events.Submit{Components: []*events.JobSpec{{Name: "three", WorkDir: "/", Script: script}}})
	eventually(t, "the next state is published", func() bool { return len(feedOf(t, w.bus)) >= 5 })
	if got := strings.Join(feedOf(t, w.bus), ", "); got != want+", 3 PENDING" {
		t.Errorf("published: %s", got)
	}
}

// Nodes are told when something for them changes, with the sequence their question must have reached; a node that is silent
// for the timeout is lost, counted from a takeover or the bus's return at the earliest.
func TestNudgesAndSilence(t *testing.T) {
	hub := patientHub()
	w := &wishes{t: t, bus: hub.Connect("agent")}
	node := hub.Connect("n1")
	nudges := make(chan struct{}, 100)
	stop, err := node.Wire().Listen(events.SubjectRun("n1"), "", func(n bus.Nudge) {
		if len(n.Data) != 8 {
			t.Errorf("a nudge of %d bytes", len(n.Data))
		}
		select {
		case nudges <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	a := run(t, hub, "a", "")
	eventually(t, "a leads", a.busyLeading)
	site := smallSite()
	site.NodeTimeoutS, site.ReturnToServiceN, site.ReturnToService = 1, 1, true
	w.say(events.Verb_CONFIGURE, 0, site)
	select {
	case <-nudges:
	case <-time.After(10 * time.Second):
		t.Fatal("the node was not told of the configuration")
	}
	up := &events.NodeMessage{Boot: "b", Executor: []byte("e"), N: 1, NowUs: time.Now().UnixMicro(), Facts: []*events.NodeFact{{Kind: &events.NodeFact_Up{Up: &events.NodeUp{
		Inventory: &events.Inventory{Cpus: 4, Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 1, MemoryMib: 100},
	}}}}}
	data, err := up.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Events().Append(context.Background(), events.SubjectNode("n1"), 0, data); err != nil {
		t.Fatal(err)
	}
	isUp := func() bool { s := status(a); return s != nil && s.NodesUp == 1 }
	eventually(t, "the node is up", isUp)
	for range 6 { // it beats for longer than the timeout
		node.Wire().Nudge(events.SubjectBeat("n1"), nil)
		time.Sleep(250 * time.Millisecond)
		if !isUp() {
			t.Fatal("a node that beats was lost")
		}
	}
	eventually(t, "the silent node is lost", func() bool { return !isUp() })
	eventually(t, "it is back when it beats again", func() bool {
		node.Wire().Nudge(events.SubjectBeat("n1"), nil)
		return isUp()
	})
}
