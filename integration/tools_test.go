package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tools are programs that drive a Slurm, themselves and unchanged: what they are given, how they are called by an ordinary user in
// a directory of theirs, and what has to come of it.
var tools = []struct {
	name, needs, debian string
	files               map[string]string
	call                string
	want                []string // each matches what it prints, or a file that the call prints
}{
	{
		name: "toil", needs: "toil", debian: "toil",
		files: map[string]string{"workflow.py": `
import os, sys
from toil.common import Toil
from toil.job import Job
def part(job, i): return "part %d cpus %s" % (i, os.environ.get("SLURM_CPUS_ON_NODE"))
def join(job, parts): return "; ".join(parts)
def broken(job): sys.exit(3)
def root(job):
    parts = [job.addChildJobFn(part, i, cores=2, memory="600M", disk="10M").rv() for i in range(2)]
    return job.addFollowOnJobFn(join, parts, memory="600M", disk="10M").rv()
if __name__ == "__main__":
    with Toil(Job.Runner.getDefaultArgumentParser().parse_args()) as toil:
        print(toil.start(Job.wrapJobFn(broken if os.environ.get("BROKEN") else root, memory="600M", disk="10M")))
`},
		call: `run() { python3 workflow.py file:$PWD/$1 --batchSystem slurm --disableCaching --logLevel ERROR --statePollingWait 1 --retryCount 0; }
run good; BROKEN=1 run bad; echo "code $?"; sacct -n -P -X -o State,ExitCode,AllocCPUS,ReqMem`,
		want: []string{`(?m)^part 0 cpus 2; part 1 cpus 2$`, `(?m)^code 1$`, `(?m)^COMPLETED\|0:0\|2\|573M$`, `(?m)^FAILED\|3:0\|1\|573M$`},
	},
	{
		name: "batchtools", needs: "Rscript", debian: "r-cran-batchtools",
		files: map[string]string{
			"slurm.tmpl": `#!/bin/bash
#SBATCH --job-name=<%= job.name %>
#SBATCH --output=<%= log.file %>
#SBATCH --error=<%= log.file %>
#SBATCH --time=<%= ceiling(resources$walltime / 60) %>
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=<%= resources$ncpus %>
#SBATCH --mem-per-cpu=<%= resources$memory %>
<%= if (array.jobs) sprintf("#SBATCH --array=1-%i", nrow(jobs)) else "" %>
Rscript -e 'batchtools::doJobCollection("<%= uri %>")'
`,
			"run.R": `
library(batchtools)
open <- function(dir) { reg <- makeRegistry(file.dir = dir, seed = 1); reg$cluster.functions <- makeClusterFunctionsSlurm(template = "slurm.tmpl"); reg }
wants <- list(walltime = 300, ncpus = 1, memory = 400, chunks.as.arrayjobs = TRUE)
reg <- open("first")
batchMap(function(x) if (x == 3) stop("three") else x^2, 1:4, reg = reg)
submitJobs(resources = wants, reg = reg)
waitForJobs(sleep = 1, timeout = 60, reg = reg)
cat("done", unlist(reduceResultsList(findDone(reg = reg), reg = reg)), "failed", findErrors(reg = reg)$job.id, "\n")
reg <- open("second")
ids <- batchMap(function(x) Sys.sleep(100), 1:2, reg = reg)
submitJobs(data.frame(job.id = 1:2, chunk = 1), resources = wants, reg = reg)
cat("there", findOnSystem(reg = reg)$job.id, "\n")
killed <- killJobs(1, reg = reg)
cat("killed", killed$killed, "\n")
while (nrow(findOnSystem(reg = reg)) > 1) Sys.sleep(0.2)
cat("left", findOnSystem(reg = reg)$job.id, "\n")
invisible(killJobs(2, reg = reg))
`},
		call: "Rscript run.R",
		want: []string{`(?m)^done 1 4 16 failed 3 $`, `(?m)^there 1 2 $`, `(?m)^killed TRUE $`, `(?m)^left 2 $`},
	},
	{
		name: "rslurm", needs: "Rscript", debian: "r-cran-rslurm",
		files: map[string]string{"run.R": `
library(rslurm)
s <- slurm_apply(function(a, b) a * b, data.frame(a = 1:6, b = 2:7), jobname = "product", nodes = 2, cpus_per_node = 2, slurm_options = list(time = "00:05:00", mem = "800"))
out <- get_slurm_out(s, outtype = "raw", wait = TRUE)
cat("products", unlist(out), get_job_status(s)$completed, "\n")
`},
		call: "Rscript run.R",
		want: []string{`(?m)^products 2 6 12 20 30 42 TRUE $`},
	},
	{
		name: "Hydra of MPICH", needs: "mpirun.mpich", debian: "mpich",
		files: map[string]string{"job.sh": `#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 -t 2 -o out
mpirun.mpich -localhost 127.0.0.1 sh -c 'echo "rank $PMI_RANK of $PMI_SIZE on $SLURM_NODEID"'
`},
		call: "sbatch --wait job.sh; echo code $?; sort out",
		want: []string{`(?s)code 0.rank 0 of 4 on 0.rank 1 of 4 on 0.rank 2 of 4 on 1.rank 3 of 4 on 1.$`},
	},
	{
		name: "Open MPI", needs: "mpirun.openmpi", debian: "openmpi-bin",
		files: map[string]string{"job.sh": `#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 -t 2 -o out
mpirun.openmpi --oversubscribe sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE local $OMPI_COMM_WORLD_LOCAL_RANK"'
`},
		call: "sbatch --wait job.sh; echo code $?; sort out; sacct -n -P -o JobName | grep orted",
		want: []string{`(?s)code 0.rank 0 of 4 local 0.rank 1 of 4 local 1.rank 2 of 4 local 0.rank 3 of 4 local 1.orted.$`},
	},
}

// Each tool that is installed here does its work on a cluster, as an ordinary user's.
func TestTools(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	alice, _, _ := people(t)
	c := start(t, "--nodes", "n[1-4]", "--cpus", "8", "--memory", "16000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	home := alice.home
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			path, err := exec.LookPath(tool.needs)
			if err != nil || tool.needs == "Rscript" && !hasLibrary(tool.name) {
				t.Skipf("needs %s, of Debian's package %s", tool.needs, tool.debian)
			}
			if !strings.HasPrefix(path, "/usr/bin/") {
				t.Skipf("%s is not Debian's: %s", tool.needs, path)
			}
			alice := alice
			alice.home = filepath.Join(home, strings.ReplaceAll(tool.name, " ", "-"))
			if err := os.Mkdir(alice.home, 0o755); err != nil {
				t.Fatal(err)
			}
			os.Chown(alice.home, int(alice.uid), int(alice.gid))
			for name, text := range tool.files {
				if err := os.WriteFile(filepath.Join(alice.home, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			r := c.asFor(3*patience, alice, "/bin/sh", "-c", tool.call)
			for _, want := range tool.want {
				if !regexp.MustCompile(want).MatchString(r.out) {
					t.Errorf("it does not print %s; it ends with %d, and prints\n%s%s", want, r.code, r.out, r.err)
				}
			}
		})
	}
}

// hasLibrary says whether R has a library.
func hasLibrary(name string) bool {
	info, err := os.Stat(filepath.Join("/usr/lib/R/site-library", name))
	return err == nil && info.IsDir()
}
