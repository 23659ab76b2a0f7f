package executor

import (
	"slices"
	"strings"
	"testing"

	"stint/events"
	"stint/executor/gpu"
	"stint/projections"
)

// batch is a job of alice on some nodes: on each so many CPUs and tasks.
func batch(spec *events.JobSpec, shares ...*events.NodeShare) *projections.Job {
	spec.Name, spec.Account, spec.Qos, spec.WorkDir, spec.SubmitHost = "envdump.sh", "ml-team", "normal", "/users/alice", "vm"
	return &projections.Job{Id: 17, Spec: spec, Owner: &events.Owner{Uid: 2001, Gid: 2001, User: "alice"}, Partition: "compute", Run: 1,
		Allocation: &events.Allocation{Shares: shares}, StartUs: 1_700_000_000_000_000, LimitS: 600}
}

func share(cpus, tasks uint32, nodes ...string) *events.NodeShare {
	var w events.Words
	if cpus > 0 {
		w.AddRange(0, cpus-1)
	}
	return &events.NodeShare{Nodes: nodes, Cpus: w, Tasks: tasks}
}

// What a real batch job of the same options has in its environment.
func TestEnvironmentIsSlurms(t *testing.T) {
	gpus := []gpu.GPU{{Index: 0, Vendor: gpu.Simulated}, {Index: 1, Vendor: gpu.Simulated}, {Index: 2, Vendor: gpu.Simulated}}
	common := `ENVIRONMENT=BATCH HOSTNAME=n1 SLURMD_NODENAME=n1 SLURM_CLUSTER_NAME=oracle SLURM_CONF=/etc/slurm/slurm.conf SLURM_GTIDS=0
		SLURM_JOBID=17 SLURM_JOB_ACCOUNT=ml-team SLURM_JOB_GID=2001 SLURM_JOB_ID=17 SLURM_JOB_NAME=envdump.sh SLURM_JOB_PARTITION=compute SLURM_JOB_QOS=normal
		SLURM_JOB_UID=2001 SLURM_JOB_USER=alice SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NODE_ALIASES=(null) SLURM_PROCID=0
		SLURM_SUBMIT_HOST=vm SLURM_TOPOLOGY_ADDR=n1 SLURM_TOPOLOGY_ADDR_PATTERN=node
		SLURM_WORKING_CLUSTER=oracle:127.0.0.1:6817:9728:109 TMPDIR=/tmp`
	one := " SLURM_JOB_NODELIST=n1 SLURM_NODELIST=n1 SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1"
	two := " SLURM_JOB_NODELIST=n[1-2] SLURM_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2"
	for _, c := range []struct {
		name string
		job  *projections.Job
		gpus []gpu.GPU
		want string
	}{
		{"plain", batch(&events.JobSpec{MemPerCpuMib: 100}, share(1, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=1"},
		{"-n4", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 4}, share(4, 4, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=4 SLURM_JOB_CPUS_PER_NODE=4 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=4"},
		{"-N2", batch(&events.JobSpec{MemPerCpuMib: 100, MinNodes: 2}, share(1, 1, "n1", "n2")), nil,
			two + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1(x2) SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=1(x2)"},
		{"-N2 -n4", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 4}, share(3, 3, "n1"), share(1, 1, "n2")), nil,
			two + " SLURM_CPUS_ON_NODE=3 SLURM_JOB_CPUS_PER_NODE=3,1 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=3,1"},
		{"-N2 --ntasks-per-node=3", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 6, TasksPerNode: 3}, share(3, 3, "n1", "n2")), nil,
			two + " SLURM_CPUS_ON_NODE=3 SLURM_JOB_CPUS_PER_NODE=3(x2) SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=3(x2)"},
		{"-N1-2 --ntasks-per-node=3", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 3, TasksPerNode: 3, MinNodes: 1, MaxNodes: 2}, share(3, 3, "n1", "n2")), nil,
			two + " SLURM_CPUS_ON_NODE=3 SLURM_JOB_CPUS_PER_NODE=3(x2) SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=3(x2) SLURM_NTASKS=6 SLURM_NPROCS=6"},
		{"-n2 -c3", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 2, CpusPerTask: 3}, share(6, 2, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=6 SLURM_JOB_CPUS_PER_NODE=6 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=2"},
		{"--mem=512M", batch(&events.JobSpec{MemPerNodeMib: 512}, share(1, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_MEM_PER_NODE=512 SLURM_TASKS_PER_NODE=1"},
		{"--mem=0", batch(&events.JobSpec{MemAll: true}, share(1, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_TASKS_PER_NODE=1"},
		{"--exclusive", batch(&events.JobSpec{MemPerCpuMib: 100}, share(8, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=8 SLURM_JOB_CPUS_PER_NODE=8 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=8"},
		{"--gpus=3", batch(&events.JobSpec{MemPerCpuMib: 100, Gres: []*events.Gres{{Name: "gpu", Count: 3, Scope: events.Scope_PER_JOB}}}, share(1, 1, "n1")), gpus,
			one + " CUDA_VISIBLE_DEVICES=0,1,2 GPU_DEVICE_ORDINAL=0,1,2 ROCR_VISIBLE_DEVICES=0,1,2 ZE_AFFINITY_MASK=0,1,2 SLURM_CPUS_ON_NODE=1 SLURM_GPUS_ON_NODE=3 SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_GPUS=0,1,2 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=1"},
		{"--gpus=2 --cpus-per-gpu=2 --mem-per-gpu=300", batch(&events.JobSpec{MemPerGpuMib: 300, CpusPerGpu: 2, Gres: []*events.Gres{{Name: "gpu", Count: 2, Scope: events.Scope_PER_JOB}}}, share(4, 0, "n1")), gpus[:2],
			one + " CUDA_VISIBLE_DEVICES=0,1 GPU_DEVICE_ORDINAL=0,1 ROCR_VISIBLE_DEVICES=0,1 ZE_AFFINITY_MASK=0,1 SLURM_CPUS_ON_NODE=4 SLURM_GPUS_ON_NODE=2 SLURM_JOB_CPUS_PER_NODE=4 SLURM_JOB_GPUS=0,1 SLURM_TASKS_PER_NODE=4"},
		{"--export=FOO=bar,SLURM_X=1", batch(&events.JobSpec{MemPerCpuMib: 100, Export: "FOO=bar,SLURM_X=1"}, share(1, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=1"},
		{"-d singleton", batch(&events.JobSpec{MemPerCpuMib: 100, DependencyText: "singleton"}, share(1, 1, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_DEPENDENCY=singleton SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=1"},
		{"--hint=nomultithread -n2", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 2, Nomultithread: true}, share(2, 2, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=2 SLURM_JOB_CPUS_PER_NODE=2 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=2"},
		{"-n2 -O", batch(&events.JobSpec{MemPerCpuMib: 100, Tasks: 2, Overcommit: true}, share(1, 2, "n1")), nil,
			one + " SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_MEM_PER_CPU=100 SLURM_TASKS_PER_NODE=2"},
	} {
		got := environment(nil, c.job, setting{node: "n1", host: "n1", conf: "/etc/slurm/slurm.conf", gpus: c.gpus,
			config: &events.Config{Cluster: "oracle", Controllers: []string{"vm"}, Compat: "22.05",
				Settings: []*events.Setting{{Key: "ClusterName", Value: "oracle"}, {Key: "SlurmctldHost", Value: "vm(127.0.0.1)"}, {Key: "SlurmctldHost", Value: "other(10.0.0.1)"}}}})
		want := strings.Fields(common + c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, only(got, want), only(want, got))
		}
	}
}

// only lists what a has and b has not.
func only(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func TestEnvironmentOfATask(t *testing.T) {
	job := batch(&events.JobSpec{Array: &events.ArraySpec{Tasks: events.WordsOf(0, 4, 8), Text: "0-8:4%1"}}, share(1, 1, "n1"))
	job.ArrayId, job.ArrayTask, job.HasTask, job.Restarts = 32, 4, true, 2
	got := environment(nil, job, setting{node: "n1", config: &events.Config{}})
	for _, v := range []string{"SLURM_ARRAY_JOB_ID=32", "SLURM_ARRAY_TASK_COUNT=3", "SLURM_ARRAY_TASK_ID=4", "SLURM_ARRAY_TASK_MAX=8", "SLURM_ARRAY_TASK_MIN=0",
		"SLURM_ARRAY_TASK_STEP=4", "SLURM_RESTART_COUNT=2", "SLURM_JOB_START_TIME=1700000000", "SLURM_JOB_END_TIME=1700000600"} {
		if !slices.Contains(got, v) {
			t.Errorf("%s is missing in %v", v, got)
		}
	}
}

// What only the newer release sets, and what both do.
func TestEnvironmentOfAReservation(t *testing.T) {
	job := batch(&events.JobSpec{Licenses: "matlab:2", Reservation: "maint"}, share(1, 1, "n1"))
	for compat, want := range map[string]string{
		"22.05": "SLURM_JOB_RESERVATION=maint SLURM_NODE_ALIASES=(null) SLURM_WORKING_CLUSTER=c:localhost:6817:9728:109",
		"26.05": "SLURM_JOB_RESERVATION=maint SLURM_JOB_LICENSES=matlab:2 SLURM_OOM_KILL_STEP=0 SLURM_JOB_START_TIME=1700000000 SLURM_JOB_END_TIME=1700000600",
	} {
		got := environment(nil, job, setting{node: "n1", config: &events.Config{Cluster: "c", Compat: compat}})
		var apart []string
		for _, v := range got {
			name, _, _ := strings.Cut(v, "=")
			switch name {
			case "SLURM_JOB_RESERVATION", "SLURM_NODE_ALIASES", "SLURM_WORKING_CLUSTER", "SLURM_JOB_LICENSES", "SLURM_OOM_KILL_STEP", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME":
				apart = append(apart, v)
			}
		}
		fields := strings.Fields(want)
		slices.Sort(apart)
		slices.Sort(fields)
		if !slices.Equal(apart, fields) {
			t.Errorf("%s: %v, want %v", compat, apart, fields)
		}
	}
}

// What was submitted stays, in its order, but for what is the job's own now.
func TestEnvironmentKeepsWhatWasSubmitted(t *testing.T) {
	submitted := splitEnvironment([]byte("B=2\x00BASH_FUNC_module%%=() {  eval x\n}\x00SLURM_JOB_ID=9\x00TMPDIR=/scratch\x00SLURM_XYZ=kept\x00A=\x00"))
	got := environment(submitted, batch(&events.JobSpec{}, share(1, 1, "n1")), setting{node: "n1", config: &events.Config{}})
	want := []string{"B=2", "BASH_FUNC_module%%=() {  eval x\n}", "TMPDIR=/scratch", "SLURM_XYZ=kept", "A="}
	if !slices.Equal(got[:len(want)], want) {
		t.Errorf("%q", got[:len(want)])
	}
	seen := map[string]int{}
	for _, v := range got {
		name, _, _ := strings.Cut(v, "=")
		if seen[name]++; seen[name] > 1 {
			t.Errorf("%s is there twice", name)
		}
	}
}
