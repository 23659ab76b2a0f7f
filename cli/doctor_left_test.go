package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"stint/events"
	"stint/executor"
	"stint/executor/cgroup"
	"stint/projections"
)

// What is left behind is found and named with what ends it: groups of jobs that no supervisor holds, here and of clusters that do not run, simulated GPUs, and steps
// that run on though the log has the job's end. What runs as it must, what other clusters that run have, and what is another program's is let alone.
func TestDoctorLeft(t *testing.T) {
	own := &held{under: "stint-a", nodes: map[string]bool{"n1": true}, known: true, steps: map[string]bool{"n1 7": true, "n1 8": true}}
	all := map[string]*held{"/d": own, "/e": {under: "stint-b", nodes: map[string]bool{"n1": true}}}
	group := func(under, node string, job uint64, pids ...int) cgroup.Found {
		return cgroup.Found{Dirs: []string{"/g/" + under + "/slurm_" + node + "/job"}, Under: under, Node: node, Job: job, PIDs: pids}
	}
	fix := func(under, node string) string {
		return "rmdir them: find /g/" + under + "/slurm_" + node + "/job -depth -type d -exec rmdir {} +"
	}
	finds(t, func(r *report) {
		judgeGroups(r, []cgroup.Found{group("stint-a", "n1", 7, 70), group("stint-b", "n1", 9, 90), group("system.slice", "", 9, 90)}, own, all)
	})
	finds(t, func(r *report) {
		judgeGroups(r, []cgroup.Found{group("stint-a", "n1", 9, 90, 91), group("stint-a", "n1", 10), group("stint-a", "n2", 7, 70), group("stint-c", "n1", 7), group("stint-c", "n1", 8, 80)}, own, all)
	},
		"warning | left behind | 2 processes run of job 9, of the node n1, which no supervisor knows to run | end them if they are nobody's: kill -9 90 91; then "+fix("stint-a", "n1"),
		"warning | left behind | an empty control group of job 10, of the node n1, which no supervisor knows to run | "+fix("stint-a", "n1"),
		"warning | left behind | 1 process runs of job 7, of the node n2, which has no supervisor here | end them if they are nobody's: kill -9 70; then "+fix("stint-a", "n2"),
		"note | left behind | an empty control group of job 7, of a cluster that does not run here (stint-c) | "+fix("stint-c", "n1"),
		"warning | left behind | 1 process runs of job 8, of a cluster that does not run here (stint-c) | end them if they are nobody's: kill -9 80; then "+fix("stint-c", "n1"))
	asleep := *own
	asleep.known = false // a supervisor does not answer: nothing is said of what it may hold
	finds(t, func(r *report) {
		judgeGroups(r, []cgroup.Found{group("stint-a", "n1", 9, 90)}, &asleep, map[string]*held{"/d": &asleep})
	})

	there := t.TempDir()
	if err := os.MkdirAll(filepath.Join(there, "node", "n1"), 0o700); err != nil {
		t.Fatal(err)
	}
	finds(t, func(r *report) {
		judgeDevices(r, []executor.Devices{{Dir: "/run/stint-gpu-1", Of: "/d/node/n1"}, {Dir: "/run/stint-gpu-2", Of: "/no/such/node/n1"}, {Dir: "/run/stint-gpu-3", Of: filepath.Join(there, "node", "n1")}}, all)
	},
		"note | left behind | simulated GPUs in /run/stint-gpu-2 of a node that is gone (/no/such/node/n1) | the next `stint up` of root removes them, or: rm -r /run/stint-gpu-2",
		"note | left behind | simulated GPUs in /run/stint-gpu-3 of a cluster that does not run ("+there+") | stint down --dir "+there+", or `stint up` there")

	job := func(id uint32, state events.JobState, ago time.Duration) *projections.JobView {
		return &projections.JobView{Job: &projections.Job{Id: id, State: state, EndUs: time.Now().Add(-ago).UnixMicro()}}
	}
	finds(t, func(r *report) {
		judgeEnded(r, own, []*projections.JobView{job(7, events.JobState_COMPLETED, time.Hour), job(8, events.JobState_RUNNING, 0), job(8, events.JobState_FAILED, time.Second)})
	},
		"warning | left behind | job 7 is over (COMPLETED) by the log, and runs on node n1 | its executor ends it as soon as it hears of it: look at its log, and at processes that the kernel does not let go (state D)")
}
