package rank

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stint/events"
	"stint/projections"
)

func TestTheQueueIsInOrder(t *testing.T) {
	low, high := &events.PartitionDef{Name: "low", PriorityTier: 1}, &events.PartitionDef{Name: "high", PriorityTier: 2}
	also := &events.PartitionDef{Name: "also", PriorityTier: 1}
	want := []Entry{
		{high, 9, 1, 0}, // the tier comes before all
		{low, 3, 100, 1},
		{also, 3, 100, 2}, // one job in two partitions of a tier: as it named them
		{low, 4, 100, 3},  // then the id
		{also, 1, 50, 4},
		{low, 2, 50, 5},
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		shuffled := slices.Clone(want)
		r.Shuffle(len(shuffled), func(i, j int) {
			if shuffled[i].Job == shuffled[j].Job || shuffled[i].Job == 3 || shuffled[j].Job == 3 {
				return // what is named first stays first
			}
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		var q Queue
		for _, e := range shuffled {
			q.Add(e.Job, e.Partition, e.Priority, e.Tag)
		}
		if got := q.Ordered(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

func TestPriorities(t *testing.T) {
	for _, c := range []struct {
		id   uint32
		nice int32
		want uint32
	}{{1, 0, Top}, {2, 0, Top - 1}, {2, 10, Top - 11}, {2, -10, Top + 9}, {4294967280, 0, 1}, {1, -2147483648, events.Unlimited - 1}} {
		if got := Initial(c.id, c.nice); got != c.want {
			t.Errorf("job %d with nice %d has priority %d, want %d", c.id, c.nice, got, c.want)
		}
	}
	if got := Basic(&projections.Job{Priority: 7}, 0); got != 7 {
		t.Errorf("the basic priority of a job with 7 is %d", got)
	}
}
