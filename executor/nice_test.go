package executor

import (
	"testing"

	"stint/events"
)

// How nice processes are is told with the request, counts where the site says so, and is within what the kernel takes.
func TestNice(t *testing.T) {
	for _, c := range []struct {
		site    string
		environ []string
		out     int32
	}{
		{"", []string{"SLURM_PRIO_PROCESS=5"}, 0},
		{"0", []string{"SLURM_PRIO_PROCESS=5"}, 0},
		{"1", []string{"A=1", "SLURM_PRIO_PROCESS=5"}, 5},
		{"1", []string{"SLURM_PRIO_PROCESS=-7"}, -7},
		{"1", []string{"SLURM_PRIO_PROCESS=99"}, 19},
		{"1", []string{"SLURM_PRIO_PROCESS=x"}, 0},
		{"1", nil, 0},
		{"2", nil, 1},
		{"2", []string{"SLURM_PRIO_PROCESS=-7"}, 1},
		{"2", []string{"SLURM_PRIO_PROCESS=4"}, 4},
	} {
		config := &events.Config{}
		if c.site != "" {
			config.Settings = []*events.Setting{{Key: "PropagatePrioProcess", Value: c.site}}
		}
		if got := niceOf(config, niceIn(c.environ)); got != c.out {
			t.Errorf("PropagatePrioProcess=%s, %v: %d, want %d", c.site, c.environ, got, c.out)
		}
	}
}
