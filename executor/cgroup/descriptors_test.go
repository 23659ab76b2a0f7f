package cgroup

import (
	"os"
	"testing"
)

// descriptors is how many files this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A group that is gone holds nothing here, however many there were: jobs come and go for months, and a descriptor of each would
// keep the kernel's memory of its groups too.
func TestGoneGroupsHoldNoDescriptors(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		before := 0
		for n := range uint64(40) {
			if n == 10 {
				before = descriptors(t)
			}
			l := Limits{DenyDevices: []Device{{'c', 195, 0}, {'c', 195, 1}}}
			if n%2 == 1 { // the limits change while it runs
				l.AllowDevices = l.DenyDevices[:1]
			}
			step := mustCreate(t, tree, n+1, "batch", l)
			if _, err := step.FD(); err != nil && err != ErrNoGroups {
				t.Fatal(err)
			}
			job, err := tree.Find(n+1, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := job.Update(l); err != nil {
				t.Fatal(err)
			}
			for _, g := range []*Group{step, job} {
				if err := g.Remove(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := descriptors(t); n > before {
			t.Errorf("%d descriptors are open after 30 more jobs, %d were before", n, before)
		}
	})
}

// Filters for ever other devices are not all held.
func TestFiltersAreBounded(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		if tree.guard.how != byProgram {
			t.Skip("devices are denied in another way here")
		}
		for n := range uint32(programsKept + 20) {
			step := mustCreate(t, tree, 1, "batch", Limits{DenyDevices: []Device{{'c', 195, n}}})
			if err := step.Remove(); err != nil {
				t.Fatal(err)
			}
			job, err := tree.Find(1, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := job.Remove(); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(tree.guard.programs); n > programsKept {
			t.Errorf("%d filters are held, and %d at most are to be", n, programsKept)
		}
	})
}
