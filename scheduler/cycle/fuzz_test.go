package cycle

import (
	"testing"

	"stint/events"
)

// FuzzPass lets a pass loose on whatever a user can get admitted: it must neither fail nor decide what is void.
func FuzzPass(f *testing.F) {
	add := func(specs ...*events.JobSpec) {
		for _, s := range specs {
			s.Script = &events.BlobRef{Subject: "b"}
			data, err := (&events.Submit{Components: []*events.JobSpec{s}}).MarshalVT()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, data)
		}
	}
	add(&events.JobSpec{Name: "a", Tasks: 3, Constraint: "", NodeList: "n[1-2]", Gres: []*events.Gres{{Name: "gpu", Count: 2}}},
		&events.JobSpec{Name: "b", Array: &events.ArraySpec{Tasks: []uint64{5}, MaxRunning: 1}, Dependencies: []*events.Dependency{{Kind: events.DependencyKind_AFTER_CORR, Job: 1}}},
		&events.JobSpec{Name: "c", MinNodes: 2, MaxNodes: 4, TasksPerNode: 3, MemPerGpuMib: 100, CpusPerGpu: 2, Gres: []*events.Gres{{Name: "gpu", Count: 3, Scope: events.Scope_PER_JOB}}},
		&events.JobSpec{Name: "d", Contiguous: true, Exclusive: 1, MinNodes: 4, TimeLimitS: events.Unlimited, BeginUs: 1 << 62, DeadlineUs: 1 << 62},
		&events.JobSpec{Name: "e", TasksPerGpu: 2, Tasks: 4, TasksPerCore: 1, ThreadsPerCore: 1, SocketsPerNode: 1, MemAll: true, Nice: 1 << 30, Overcommit: true})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		w := newWorld(t, four())
		w.mem = NewMemory()
		for _, body := range [][]byte{first, second, first} {
			if len(body) > 1<<15 {
				return
			}
			w.intent(1000, events.Verb_SUBMIT, raw(body))
			w.pass()
		}
		if w.last.next != 0 && w.last.next > w.now {
			w.now = w.last.next
		}
		w.pass()
		w.passWith(&events.Observed{SilentNodes: []string{"n1", "nowhere"}})
		if len(w.c.Inbox()) != 0 {
			t.Fatal("an intent has no verdict")
		}
	})
}

type raw []byte

func (r raw) MarshalVT() ([]byte, error) { return r, nil }
