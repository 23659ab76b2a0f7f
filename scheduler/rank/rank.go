// Package rank puts the queue in order.
//
// A job stands in the queue once for each partition it asked for. The order is that of the partition's PriorityTier,
// highest first, then of the job's priority, highest first, then of its id. What a job's priority is, is a Function; Basic
// is the order of submission.
package rank

import (
	"slices"

	"stint/events"
	"stint/projections"
)

// Top is the priority of the first job under Basic; each later one has one less.
const Top uint32 = 4294901759

// Function gives a waiting job that is not held its priority at a time (microseconds). It depends on its arguments only.
type Function func(job *projections.Job, now int64) uint32

// Basic is the priority that the job was given when it was admitted, released or changed: with Initial, the order of
// submission.
func Basic(job *projections.Job, _ int64) uint32 { return job.GetPriority() }

// Initial is the priority of a new job: the order of submission, shifted by its nice value. It is never 0, which means held.
func Initial(id uint32, nice int32) uint32 {
	p := int64(Top) - int64(id) + 1 - int64(nice)
	return uint32(min(max(p, 1), int64(events.Unlimited)-1))
}

// Entry is a job's place in the queue of one partition.
type Entry struct {
	Partition *events.PartitionDef
	Job       uint32
	Priority  uint32
	Tag       uint32 // the caller's
}

// Queue collects entries and puts them in order. The zero value is an empty queue.
type Queue struct{ entries []Entry }

// Grow makes room for n more entries.
func (q *Queue) Grow(n int) { q.entries = slices.Grow(q.entries, n) }

// Add puts a job, with the caller's tag, into the queue of a partition.
func (q *Queue) Add(job uint32, partition *events.PartitionDef, priority, tag uint32) {
	q.entries = append(q.entries, Entry{Partition: partition, Job: job, Priority: priority, Tag: tag})
}

// Ordered is the entries in order, those of a job that stand equal in the order in which it named the partitions.
func (q *Queue) Ordered() []Entry {
	if !slices.IsSortedFunc(q.entries, compare) {
		slices.SortStableFunc(q.entries, compare)
	}
	return q.entries
}

func compare(x, y Entry) int {
	switch {
	case x.Partition != y.Partition && x.Partition.GetPriorityTier() != y.Partition.GetPriorityTier():
		return sign(x.Partition.GetPriorityTier() > y.Partition.GetPriorityTier())
	case x.Priority != y.Priority:
		return sign(x.Priority > y.Priority)
	case x.Job != y.Job:
		return sign(x.Job < y.Job)
	}
	return 0
}

func sign(first bool) int {
	if first {
		return -1
	}
	return 1
}
