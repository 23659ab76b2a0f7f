package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What Snakemake 7 is given in TestSnakemake: a chain of rules that fans out and in again, with what it turns into sbatch's options; and
// a rule that fails. Each job of it is a Snakemake of its own that runs its rule by srun.
const snakefile = `
PARTS = ["a", "b"]
rule all:
    input: "sum.txt"
rule make:
    output: "{part}.txt"
    threads: 2
    resources: mem_mb=500, runtime=5
    shell: "echo {wildcards.part} $SLURM_JOB_PARTITION $SLURM_CPUS_ON_NODE $SLURM_MEM_PER_NODE {threads} > {output}"
rule sum:
    input: expand("{part}.txt", part=PARTS)
    output: "sum.txt"
    resources: mem_mb=600, runtime=5, cpus_per_task=1, slurm_partition="debug", slurm_extra="'--comment=the end'"
    shell: "cat {input} > {output}"
rule broken:
    output: "broken.txt"
    resources: mem_mb=500, runtime=5
    shell: "echo so far > {output}; exit 3"
`

// Snakemake itself, with --slurm: an ordinary user's workflow comes to its end, and a rule that fails is seen to have failed.
func TestSnakemake(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: Snakemake asks how one of its jobs is every 33 seconds")
	}
	snakemake, err := exec.LookPath("snakemake")
	if err != nil {
		t.Skip("needs snakemake, of Debian's package of that name")
	}
	if out, _ := exec.Command(snakemake, "--version").Output(); !strings.HasPrefix(string(out), "7.") {
		t.Skipf("needs snakemake 7, whose --slurm is part of it; this is %s", strings.TrimSpace(string(out)))
	}
	alice, _, _ := people(t)
	c := start(t, "--nodes", "n[1-4]", "--cpus", "8", "--memory", "16000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(alice.home, "Snakefile"), []byte(snakefile), 0o644); err != nil {
		t.Fatal(err)
	}
	r := c.asFor(6*patience, alice, snakemake, "--slurm", "--jobs", "4", "--keep-going", "--latency-wait", "20", "all", "broken.txt")
	if r.code != 1 || !strings.Contains(r.err, "failed, SLURM status is: 'FAILED'") {
		t.Fatalf("a workflow with a rule that fails ends with %d:\n%s%s", r.code, r.out, r.err)
	}
	if _, err := os.Stat(filepath.Join(alice.home, "broken.txt")); err == nil {
		t.Error("what a failed rule had written was left there")
	}
	var want strings.Builder
	for _, part := range []string{"a", "b"} {
		fmt.Fprintf(&want, "%s debug 2 500 2\n", part)
	}
	if got, err := os.ReadFile(filepath.Join(alice.home, "sum.txt")); string(got) != want.String() {
		t.Errorf("the workflow made %q, want %q (%v)", got, want.String(), err)
	}
	r = c.as(alice, "sacct", "-n", "-P", "-X", "-s", "CD", "-S", "today", "-E", "now", "-o", "AllocCPUS,ReqMem,Timelimit,State,Comment")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 3 || lines[2] != "1|600M|00:05:00|COMPLETED|the end" {
		t.Errorf("accounting says of the workflow\n%s%s", r.out, r.err)
	}
}
