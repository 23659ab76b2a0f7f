package slurm

import (
	"slices"
	"strings"
	"testing"
)

// What options alone put into a job's environment, in both releases.
func TestSbatchTellsTheJob(t *testing.T) {
	for _, c := range []struct{ args, old, now string }{
		{"", "", ""},
		{"-n4", "SLURM_NPROCS=4 SLURM_NTASKS=4", ""},
		{"-N2 --ntasks-per-node=3", "SLURM_NPROCS=6 SLURM_NTASKS=6 SLURM_NTASKS_PER_NODE=3", ""},
		{"-N2", "", ""},
		{"-c3", "SLURM_CPUS_PER_TASK=3", "SLURM_TRES_PER_TASK=cpu=3"},
		{"-n2 --ntasks-per-core=1", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_NTASKS_PER_CORE=1", ""},
		{"--gpus=a100:2 --cpus-per-gpu=2 --mem-per-gpu=300", "SLURM_CPUS_PER_GPU=2 SLURM_MEM_PER_GPU=300 SLURM_GPUS=a100:2", ""},
		{"--gpus-per-node=2", "SLURM_GPUS_PER_NODE=2", ""},
		{"--gres=gpu:2", "", ""},
		{"-n2 --gpus-per-task=a100:1", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_GPUS_PER_TASK=a100:1", "SLURM_TRES_PER_TASK=gres/gpu:a100=1"},
		{"-n4 -m plane=2", "SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=2", ""},
		{"-m *:fcyclic", "SLURM_DISTRIBUTION=block:fcyclic", ""},
		{"-m cyclic:*:block", "SLURM_DISTRIBUTION=cyclic:cyclic:block", ""},
		{"-m block,NoPack", "SLURM_DISTRIBUTION=block,nopack", ""},
		{"-m cyclic", "SLURM_DISTRIBUTION=cyclic", ""},
		{"--hint=nomultithread", "SLURM_HINT=nomultithread SLURM_THREADS_PER_CORE=1", ""},
		{"--threads-per-core=1", "SLURM_THREADS_PER_CORE=1", ""},
		{"-O", "SLURM_OVERCOMMIT=1", ""},
		{"--profile=none", "SLURM_PROFILE=None", ""},
		{"--profile=all", "SLURM_PROFILE=Energy,Lustre,Network,Task", ""},
		{"--profile=task,energy", "SLURM_PROFILE=Energy,Task", ""},
		{"--gpus=1 --gpu-bind=single:1 --gpu-freq=high", "SLURM_GPUS=1 SLURM_GPU_BIND=single:1 SLURM_GPU_FREQ=high", ""},
		{"-B 1:2:1", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_THREADS_PER_CORE=1", ""},
		{"-N2 -B 1:2", "SLURM_NPROCS=4 SLURM_NTASKS=4", ""},
		{"-N1-2 -B 1:2:1", "SLURM_THREADS_PER_CORE=1", ""},
		{"--cores-per-socket=2", "", ""},
		{"-N2 --cores-per-socket=2", "SLURM_NPROCS=4 SLURM_NTASKS=4", ""},
		{"-N2 --threads-per-core=1", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_THREADS_PER_CORE=1", ""},
		{"-N2 --hint=nomultithread", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_HINT=nomultithread SLURM_THREADS_PER_CORE=1", ""},
		{"-N1-2 --threads-per-core=1", "SLURM_THREADS_PER_CORE=1", ""},
		{"--sockets-per-node=1 -N2 --ntasks-per-node=3", "SLURM_NPROCS=6 SLURM_NTASKS=6 SLURM_NTASKS_PER_NODE=3", ""},
		{"-N3-4 --ntasks-per-node=2", "SLURM_NTASKS_PER_NODE=2", ""},
		{"-N3-4 --ntasks-per-node=2 -n7", "SLURM_NPROCS=7 SLURM_NTASKS=7 SLURM_NTASKS_PER_NODE=2", ""},
		{"--ntasks-per-socket=2", "SLURM_NTASKS_PER_SOCKET=2", ""},
		{"--gpus=2 --ntasks-per-gpu=1", "SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_NTASKS_PER_GPU=1 SLURM_GPUS=2", ""},
		{"--gpus-per-socket=1 --sockets-per-node=1", "SLURM_GPUS_PER_SOCKET=1", ""},
		{"--cpu-freq=HIGH", "SLURM_CPU_FREQ_REQ=High", ""},
		{"--cpu-freq=1000-2000:ondemand", "SLURM_CPU_FREQ_REQ=1000-2000:OnDemand", ""},
		{"--cpu-freq=low-highm1", "SLURM_CPU_FREQ_REQ=Low-Highm1", ""},
		{"--cpu-freq=userspace", "SLURM_CPU_FREQ_REQ=UserSpace", ""},
		{"--mem-bind=local", "SLURM_MEM_BIND=local SLURM_MEM_BIND_VERBOSE=quiet", ""},
		{"--mem-bind=v,none", "SLURM_MEM_BIND=verbose,none SLURM_MEM_BIND_VERBOSE=verbose", ""},
		{"--mem-bind=sort,prefer,rank", "SLURM_MEM_BIND_SORT=sort SLURM_MEM_BIND=prefer,sort,rank SLURM_MEM_BIND_VERBOSE=quiet", ""},
		{"--mem-bind=nosort,local", "SLURM_MEM_BIND=local SLURM_MEM_BIND_VERBOSE=quiet", ""},
		{"--mem-bind=map_mem:0,1", "SLURM_MEM_BIND=map_mem:0,1 SLURM_MEM_BIND_VERBOSE=quiet", ""},
		{"--mem-bind=mask_mem:0x3,0xF", "SLURM_MEM_BIND=mask_mem:3,F SLURM_MEM_BIND_VERBOSE=quiet", ""},
		{"--mem-bind=verbose", "SLURM_MEM_BIND=verbose SLURM_MEM_BIND_VERBOSE=verbose", ""},
		{"--mem-bind=q", "", ""},
		{"--network=ib", "", "SLURM_NETWORK=ib"},
		{"--export=NONE", "SLURM_EXPORT_ENV=NONE SLURM_GET_USER_ENV=1", ""},
		{"--get-user-env", "SLURM_GET_USER_ENV=1", ""},
	} {
		for _, r := range []Release{Release2205, Release2605} {
			in := testInput(append(strings.Fields(c.args), "--wrap", "x")...)
			in.Release, in.Environ = r, []string{"SLURM_NTASKS=9", "SLURM_SUBMIT_DIR=/outer", "HOME=/home/alice"}
			s, err := Sbatch(in)
			if err != nil {
				t.Fatalf("%s: %v", c.args, err)
			}
			want := strings.Fields("SLURM_PRIO_PROCESS=0 SLURM_SUBMIT_DIR=/home/alice " + c.old)
			if r == Release2605 {
				want = append(want, strings.Fields(c.now)...)
			}
			if !strings.Contains(c.old, "SLURM_NTASKS=") && c.args != "-N3-4 --ntasks-per-node=2" {
				want = append(want, "SLURM_NTASKS=9") // an enclosing job's, as sbatch passes it on
			}
			got := slices.DeleteFunc(slices.Clone(s.Environ), func(v string) bool { return !strings.HasPrefix(v, "SLURM_") })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%v: sbatch %s\n got %v\nwant %v", r, c.args, got, want)
			}
		}
	}
}

// A governor goes with a range of frequencies or stands alone.
func TestSbatchRefusesFrequencies(t *testing.T) {
	for _, v := range []string{"high:performance", "fast", "low-", "1-2:fast", "-5", "2-1"} {
		if _, err := Sbatch(testInput("--cpu-freq="+v, "--wrap", "x")); err == nil || !strings.Contains(err.Error(), "--cpu-freq") {
			t.Errorf("--cpu-freq=%s: %v", v, err)
		}
	}
}
