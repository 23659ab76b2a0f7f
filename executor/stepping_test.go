package executor

import (
	"context"
	"testing"

	"stint/events"
	"stint/executor/supervisor"
	"stint/executor/tasks"
	"stint/projections"
)

// A numbered step waits, as a script does, for what the log has given up and what lives here yet: the room that its allocation has by
// the log is not free before. It is asked for again, and its number is not taken.
func TestAStepWaitsForWhatTheLogHasGivenUp(t *testing.T) {
	given := key{90, 1, events.StepBatch}
	e := &executor{conf: Config{Node: "n1"}, config: &events.Config{}, steps: map[key]*step{given: {key: given, void: true, started: &supervisor.Started{}}}}
	e.stepping.init()
	e.runs = map[uint32]*projections.NodeRun{94: {Job: &projections.Job{Id: 94, Run: 1, State: events.JobState_RUNNING,
		Allocation: &events.Allocation{Shares: []*events.NodeShare{{Nodes: []string{"n1"}}}}, Owner: &events.Owner{Uid: 1000}}}}
	c := &tasks.Create{Job: 94, Want: &tasks.Want{}, Launcher: &tasks.Launcher{}, Nonce: []byte("one")}
	if r := e.createStep(context.Background(), 1000, c); r.Refusal != tasks.Refusal_BUSY {
		t.Errorf("beside what was given up: %v", r)
	}
	if r := e.launchHere(context.Background(), e.runs[94].Job, 0, &tasks.Launch{Job: 94, Run: 1}); r.Refusal != tasks.Refusal_BUSY {
		t.Errorf("a part of a step of another node, beside what was given up: %v", r)
	}
}
