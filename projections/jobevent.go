package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"stint/events"
	"stint/events/hostlist"
)

// Derivation is the version of what JobEvents makes of the log; a term says which one its leader publishes. Another shape,
// order or choice of events is another version.
const Derivation = 1

// JobEvent is one message of the JOBS stream: one change of a job's state that a service may care for.
type JobEvent struct {
	Subject string // job.<STATE>.<partition>.<user>.<id>
	Data    []byte // JSON, the shape of JobEventBody
	Seq     uint64 // the message of EVENTS that it comes from …
	Index   int    // … and its number, from 0, among the events that come from it
}

// JobEventBody is what services read. Keys are never renamed or given another meaning; new ones may come.
//
// States are Slurm's words. PENDING: submitted (of an array once, for all its tasks). RUNNING: placed, also when resumed.
// SUSPENDED. COMPLETING: told to end, or the first of its nodes has reported the end. COMPLETED, FAILED, CANCELLED, TIMEOUT,
// NODE_FAIL, PREEMPTED, OUT_OF_MEMORY, DEADLINE, BOOT_FAIL: final, with the exit code. REQUEUED: in the queue again, under the
// same id. A task that gets an id of its own when it starts, or is cancelled in the queue, has its first event then.
type JobEventBody struct {
	Cluster   string `json:"cluster"`
	Job       uint32 `json:"job"`
	ArrayJob  uint32 `json:"array_job,omitempty"`
	ArrayTask *int64 `json:"array_task,omitempty"`
	Tasks     string `json:"array_tasks,omitempty"` // of an array that has not started: the indices, as 0-9,12
	Name      string `json:"name"`
	User      string `json:"user"`
	UID       uint32 `json:"uid"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Nodes     string `json:"nodes,omitempty"` // host list
	CPUs      int    `json:"cpus,omitempty"`
	MemoryMiB uint64 `json:"memory_mib,omitempty"`
	GPUs      uint64 `json:"gpus,omitempty"`
	ExitCode  string `json:"exit_code,omitempty"` // code:signal, of final states
	Run       uint32 `json:"run,omitempty"`
	Time      string `json:"time"` // RFC 3339 with microseconds, UTC
	Seq       uint64 `json:"seq"`
	Index     int    `json:"index"`
}

// JobEvents makes of the changes of one message what is published to services. It is a function of its arguments alone, so
// that whoever publishes writes the same bytes.
func JobEvents(cluster string, changes []Change) []JobEvent {
	var list []JobEvent
	for _, change := range changes {
		word := publishedState(change)
		if word == "" {
			continue
		}
		j := change.After
		body := JobEventBody{
			Cluster: cluster, Job: j.Id, ArrayJob: j.ArrayId, Name: j.GetSpec().GetName(), User: j.GetOwner().GetUser(), UID: j.GetOwner().GetUid(),
			Account: j.GetSpec().GetAccount(), Partition: j.Partition, State: word, Run: j.Run,
			Nodes: hostlist.Compress(j.Allocation.NodeNames()), CPUs: j.Allocation.CPUs(), MemoryMiB: j.Allocation.MemoryMiB(),
			Time: time.UnixMicro(change.At).UTC().Format("2006-01-02T15:04:05.000000Z07:00"), Seq: change.Seq, Index: len(list),
		}
		if j.HasTask {
			task := int64(j.ArrayTask)
			body.ArrayTask = &task
		} else if j.Remainder() {
			body.Tasks = events.Words(j.Pending).String()
		}
		if j.Reason != events.Reason_NONE {
			body.Reason = j.Reason.Word()
		}
		if j.Over() {
			body.ExitCode = fmt.Sprintf("%d:%d", j.ExitCode, j.ExitSignal)
		}
		for _, g := range j.Allocation.Gres() {
			if g.Name == "gpu" {
				body.GPUs += g.Count
			}
		}
		data, err := json.Marshal(body)
		if err != nil {
			continue // strings, numbers: there is no such error
		}
		list = append(list, JobEvent{Subject: events.SubjectJob(word, j.Partition, body.User, j.Id), Data: data, Seq: change.Seq, Index: body.Index})
	}
	return list
}

// publishedState is the word for a change of state, or nothing for a change that is none.
func publishedState(c Change) string {
	j := c.After
	switch {
	case j == nil:
		return ""
	case c.Before == nil:
		if j.Waits() && c.Fact.GetAdmitted() == nil {
			return "" // a task got a record of its own, in the queue as before
		}
		return j.State.Word()
	case c.Before.State == j.State:
		if j.Completing && !c.Before.Completing && j.Live() {
			return "COMPLETING"
		}
		return ""
	case j.Waits():
		return "REQUEUED"
	}
	return j.State.Word()
}
