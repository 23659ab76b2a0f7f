package scheduler

import (
	"testing"
	"time"

	"stint/events"
	"stint/projections"
	"stint/scheduler/cycle"
)

func TestStats(t *testing.T) {
	s := newStats(1000)
	job := func(state events.JobState) *projections.Job { return &projections.Job{Id: 1, State: state} }
	array := &projections.Job{Id: 2, ArrayId: 2, State: events.JobState_PENDING, Pending: []uint64{0b111}}
	s.changed([]projections.Change{
		{After: job(events.JobState_PENDING)}, {After: array},
		{Before: job(events.JobState_PENDING), After: job(events.JobState_RUNNING)},
		{Before: job(events.JobState_RUNNING), After: job(events.JobState_RUNNING)},
		{Before: job(events.JobState_RUNNING), After: job(events.JobState_COMPLETED)},
		{After: &projections.Job{Id: 3, ArrayId: 2, HasTask: true, State: events.JobState_RUNNING}}, // a task splits off as it starts
		{Before: job(events.JobState_PENDING), After: job(events.JobState_CANCELLED)},
		{Before: job(events.JobState_RUNNING), After: job(events.JobState_TIMEOUT)},
		{Before: job(events.JobState_COMPLETED)},
	})
	s.passed(5, 40*time.Microsecond, cycle.Seen{Queue: 3, Tried: 2, Held: 4}, nil)
	s.passed(6, 20*time.Microsecond, cycle.Seen{Queue: 9, Tried: 8, Behind: 5, Held: 6},
		[]*events.Fact{{Kind: &events.Fact_Placed{Placed: &events.Placed{Job: 1, Backfilled: true}}}, {Kind: &events.Fact_Placed{Placed: &events.Placed{Job: 2}}}})
	want := &projections.AnswerStats{
		SinceUs: 1000, Submitted: 4, Started: 2, Completed: 1, Canceled: 1, Failed: 1, Backfilled: 1, BackfilledSince: 1, Held: 6,
		Passes:   &projections.Passes{Count: 2, LastUs: 6, Last: 20, Most: 40, Sum: 60, Depth: 8, DepthSum: 10, Queue: 9, QueueSum: 12, P99: 40},
		Backfill: &projections.Passes{Count: 1, LastUs: 6, Last: 20, Most: 20, Sum: 20, Depth: 5, DepthSum: 5, Queue: 9, QueueSum: 9},
	}
	if got := s.copy(); !got.EqualVT(want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	s.reset(2000)
	want = &projections.AnswerStats{SinceUs: 2000, Backfilled: 1, Held: 6, Passes: &projections.Passes{LastUs: 6, Last: 20, Queue: 9}, Backfill: &projections.Passes{LastUs: 6}}
	if got := s.copy(); !got.EqualVT(want) {
		t.Errorf("after a reset: got\n%v\nwant\n%v", got, want)
	}
}
