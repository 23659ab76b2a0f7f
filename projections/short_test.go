package projections

import (
	"testing"

	"stint/events"
)

// A node that has less than is configured is not given to jobs, unless it is virtual or taken as configured.
func TestShortOfWhatIsConfigured(t *testing.T) {
	for _, c := range []struct {
		def  *events.NodeDef
		want string
	}{
		{&events.NodeDef{Cpus: 4, MemoryMib: 1000}, ""},
		{&events.NodeDef{Cpus: 8}, "Low CPUs"},
		{&events.NodeDef{Cpus: 8, CoreSpec: 4}, ""},
		{&events.NodeDef{Cpus: 4, MemoryMib: 2000}, "Low RealMemory"},
		{&events.NodeDef{Cpus: 4, TmpDiskMib: 1}, "Low TmpDisk"},
		{&events.NodeDef{Cpus: 8, MemoryMib: 2000, Virtual: true}, ""},
		{&events.NodeDef{Cpus: 8, MemoryMib: 2000, TmpDiskMib: 1, AsConfigured: true}, ""},
	} {
		n := &Node{}
		n.Def, n.Inventory = c.def, &events.Inventory{Cpus: 4, MemoryMib: 1000}
		if got := shortOf(n); got != c.want {
			t.Errorf("%v: %q, want %q", c.def, got, c.want)
		}
	}
}
