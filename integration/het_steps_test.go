package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Steps in the components of a heterogeneous job: one srun, ranks and nodes that go on from one component to the next, and in each a step of the same
// number. What is expected here was seen on a real Slurm (22.05).
func TestHeterogeneousSteps(t *testing.T) {
	c := start(t, "--nodes", "n[1-3]", "--cpus", "4", "--memory", "4000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	where := `echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_GTIDS $SLURMD_NODENAME`
	rows := []struct {
		says   string
		line   string
		code   int
		sorted string // lines of stdout
		err    []string
	}{
		{"without --het-group a step is in the first component", `srun sh -c 'echo $SLURM_STEP_ID $SLURMD_NODENAME'`, 0, "0 n1|0 n2|0 n1", nil},
		{"components count their steps together", `srun --het-group=1 -l sh -c 'echo $SLURM_STEP_ID $SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURM_NTASKS $SLURM_NNODES $SLURM_JOB_CPUS_PER_NODE'`, 0,
			"0: 1 1 n3 2 1 2|1: 1 1 n3 2 1 2", nil},
		{"one program in all", `srun --het-group=0,1 sh -c '` + where + `'`, 0, "0 0 0 0,1 n1|1 0 1 0,1 n1|2 1 0 2 n2|3 2 0 3,4 n3|4 2 1 3,4 n3", nil},
		{"what all of it is", `srun --het-group=0,1 sh -c 'test $SLURM_PROCID = 4 && echo $SLURM_STEP_ID $SLURM_JOB_ID $SLURM_NTASKS $SLURM_NNODES $SLURM_NODELIST $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE $SLURM_STEP_NUM_TASKS $SLURM_HET_SIZE $SLURM_DISTRIBUTION; :'`, 0,
			"3 1 5 3 n[1-3] 2,1,2 2,1,2 5 2 block", nil},
		{"a program for each", `srun -l --het-group=1 echo b : --het-group=0 -n1 -N1 echo a`, 0, "0: a|1: b|2: b", nil},
		{"a program for each, in order", `srun -l -N1 -n1 echo a : echo b`, 0, "0: a|1: b|2: b", nil},
		{"of one that has none its successor's", `srun -l -N1 -n1 : echo b`, 0, "0: b|1: b|2: b", nil},
		{"what comes in goes to all", `echo hi | srun -l --het-group=0-1 cat`, 0, "0: hi|1: hi|2: hi|3: hi|4: hi", nil},
		{"files", `srun --het-group=0,1 -o o-%t-%n-%s-%j-%J echo hi; ls o-*`, 0, "o-0-0-8-1-1.8|o-1-0-8-1-1.8|o-2-1-8-1-1.8|o-3-0-8-2-2.8|o-4-0-8-2-2.8", nil},
		{"one file", `srun -o one --het-group=0,1 -l echo hi; cat one`, 0, "0: hi|1: hi|2: hi|3: hi|4: hi", nil},
		{"one exit code, and who it was by their numbers in the component", `srun --het-group=0,1 sh -c 'test $SLURM_PROCID -lt 3 || exit 3'`, 3, "", []string{"srun: error: n3: tasks 0-1: Exited with exit code 3"}},
		{"one fails, all end", `srun -K --het-group=0,1 sh -c 'test $SLURM_PROCID = 0 && exit 4; exec sleep 60'`, 143, "", []string{"srun: Terminating StepId=1.11", "srun: Terminating StepId=2.11", "srun: error: n3: tasks 0-1: Terminated"}},
		{"the first ends, then the others", `srun -W1 --het-group=0,1 sh -c 'test $SLURM_PROCID = 0 || exec sleep 60'`, 137, "",
			[]string{"srun: First task exited 1s ago", "srun: StepId=1.12 task 0: exited", "srun: StepId=1.12 tasks 1-2: running", "srun: StepId=2.12 tasks 0-1: running"}},
		{"a file of programs for each", `srun --het-group=0,1 --multi-prog prog`, 0, "0 x|1 x|2 y|0 x|1 x", nil},
		{"one that is not there", `srun --het-group=2 true`, 1, "", []string{"srun: error: Requested het-group offset exceeds highest hetjob index (2 > 1)"}},
		{"more programs than components", `srun true : true : true`, 1, "", []string{"srun: error: Attempt to run a job step with het group value of 2, but the job allocation has maximum value of 1"}},
		{"one twice", `srun --het-group=0,1 true : --het-group=1 true`, 1, "", []string{"Duplicate het groups in single srun not supported"}},
		{"no number", `srun --het-group=x true`, 1, "", []string{"srun: error: Invalid --het-group value: x"}},
		{"more than a component has", `srun --het-group=1 -n9 true`, 1, "", []string{"srun: error: Unable to create step for job 2: More processors requested than permitted"}},
		{"a component by its own id", `srun --jobid=2 true`, 1, "", []string{"srun: error: Unable to confirm allocation for job 2: Job not heterogeneous job leader"}},
		{"who looks at them", `srun -l --het-group=0,1 sh -c 'test $SLURM_PROCID = 0 || { until test -e seen; do sleep 0.1; done; exit; }; until test $(squeue -h -s -o %i | wc -l) = 3; do sleep 0.1; done; squeue -h -s -o "%i %N"; scontrol show step 1 | grep -o StepId=[^\ ]*; scontrol show step 2 | grep -o StepId=[^\ ]*; touch seen'`, 0,
			"0: 1.14 n[1-2]|0: 1.batch n1|0: 2.14 n3|0: StepId=1.batch|0: StepId=1.14|0: StepId=2.14", nil},
	}
	os.WriteFile(filepath.Join(c.work, "prog"), []byte("0-1 sh -c 'echo $0 x' %t\n* sh -c 'echo $0 y' %t\n"), 0o644)
	var script strings.Builder
	script.WriteString("#!/bin/bash\n#SBATCH -N2 -n3\n#SBATCH hetjob\n#SBATCH -N1 -n2\n")
	for i, r := range rows {
		fmt.Fprintf(&script, "( %s ) </dev/null >out.%d 2>err.%d; echo $? >code.%d\n", r.line, i, i, i)
	}
	c.script("all", script.String())
	c.submit("--parsable", "all")
	c.await("1+0", "COMPLETED")
	for i, r := range rows {
		lines := strings.Split(strings.TrimSuffix(c.read(fmt.Sprintf("out.%d", i)), "\n"), "\n")
		slices.Sort(lines)
		want := strings.Split(r.sorted, "|")
		slices.Sort(want)
		if got := strings.Join(lines, "|"); got != strings.Join(want, "|") {
			t.Errorf("%s\n%s\nprints %s\nnot    %s", r.says, r.line, got, strings.Join(want, "|"))
		}
		if got := strings.TrimSpace(c.read(fmt.Sprintf("code.%d", i))); got != fmt.Sprint(r.code) {
			t.Errorf("%s: %s ends with %s, not %d", r.says, r.line, got, r.code)
		}
		said := c.read(fmt.Sprintf("err.%d", i))
		for _, e := range r.err {
			if !strings.Contains(said, e) {
				t.Errorf("%s: %s says %q, not %q", r.says, r.line, said, e)
			}
		}
	}
}

// srun that asks for a heterogeneous allocation itself.
func TestHeterogeneousSrun(t *testing.T) {
	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000")
	r := c.try("srun", "-l", "-N1", "-n1", "sh", "-c", "echo a $SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURM_JOB_CPUS_PER_NODE $SLURM_NTASKS $SLURM_HET_SIZE", ":", "-N1", "-n2", "sh", "-c", "echo b $SLURM_PROCID $SLURMD_NODENAME; exit $SLURM_LOCALID")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	slices.Sort(lines)
	if got, want := strings.Join(lines, "|"), "0: a 1 n[1-2] 1,2 3 2|1: b 1 n2|2: b 2 n2"; got != want || r.code != 1 || !strings.Contains(r.err, "srun: error: n2: task 1: Exited with exit code 1") {
		t.Errorf("prints %q, exits with %d, and says %q", got, r.code, r.err)
	}
	c.await("1+0", "FAILED")
	if got, want := c.do("sacct", "-n", "-P", "-j", "1", "-o", "jobid,jobidraw,state,exitcode"), "1+0|1|FAILED|1:0\n1+0.0|1.0|COMPLETED|0:0\n1+1|2|FAILED|1:0\n1+1.0|2.0|FAILED|1:0\n"; got != want {
		t.Errorf("sacct prints\n%s, not\n%s", got, want)
	}
}
