package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program is copied to the nodes of a step before it runs there, and files to those of a job or of a step, over ten nodes and in a tree.
func TestBroadcast(t *testing.T) {
	c := start(t, "--nodes", "n[1-10]", "--cpus", "2", "--memory", "1000")
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	os.Mkdir(filepath.Join(c.work, "there"), 0o777)
	c.script("prog", "#!/bin/sh\necho $0 $SLURMD_NODENAME $1\n")
	var want []string
	for n := range 10 {
		want = append(want, fmt.Sprintf("%s/there/slurm_bcast_1.0_n%d n%d arg", c.work, n+1, n+1))
	}
	r := c.try("srun", "-N10", "--bcast=there/", "--compress", "./prog", "arg")
	if got := sortedLines(r.out); r.code != 0 || got != sortedLines(strings.Join(want, "\n")) {
		t.Errorf("exit %d, prints %s\n%s", r.code, got, r.err)
	}
	for n := range 10 {
		if st, err := os.Stat(filepath.Join(c.work, "there", fmt.Sprintf("slurm_bcast_1.0_n%d", n+1))); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("n%d: %v", n+1, err)
		}
	}
	if r := c.try("srun", "-N2", "--bcast="+c.work+"/there/own", "./prog", "x"); r.code != 0 || sortedLines(r.out) != c.work+"/there/own n1 x|"+c.work+"/there/own n2 x" {
		t.Errorf("exit %d, prints %s\n%s", r.code, r.out, r.err)
	}
	if r := c.try("srun", "-N2", "--bcast=/nosuch/place", "./prog"); r.code == 0 || r.out != "" || !strings.Contains(r.err, "srun: error: REQUEST_FILE_BCAST(n1): No such file or directory\n") || !strings.Contains(r.err, "srun: fatal: Failed to broadcast '"+c.work+"/prog'. Step launch aborted.") {
		t.Errorf("exit %d, prints %s\n%s", r.code, r.out, r.err)
	}
	c.script("cast", `#!/bin/sh
#SBATCH -N10 -o cast.out
head -c 2000000 /dev/urandom >big
touch -d 2020-02-02 big
sbcast -f -C -F2 -s 64k -p big there/big && cmp big there/big && stat -c %y there/big | cut -d' ' -f1
sbcast big there/big; echo code $?
sbcast -f -v big there/big 2>&1 | grep node_list
srun --overlap -N3 -n3 sh -c 'test $SLURM_PROCID = 0 || exit 0; until test -e sent; do sleep 0.1; done' &
until squeue -h -s -j $SLURM_JOB_ID -o %i | grep -q '\.0$'; do sleep 0.1; done
sbcast -f -v -j $SLURM_JOB_ID.0 big there/big 2>&1 | grep node_list
touch sent
wait
`)
	c.do("sbatch", "-W", "cast")
	if got, want := c.read("cast.out"), "2020-02-02\nsbcast: error: REQUEST_FILE_BCAST(n"; !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, "code 17\nsbcast: node_list  = n[1-10]\nsbcast: node_list  = n[1-3]\n") {
		t.Errorf("it prints %s", got)
	}
}

// Where the site has ports for launchers, those of copies are among them.
func TestBroadcastPorts(t *testing.T) {
	ports := freePorts(t, 1)
	c := planned(t)
	conf := filepath.Join(c.work, "slurm.conf")
	text := fmt.Sprintf("ClusterName=c\nSlurmctldHost=localhost\nSrunPortRange=%d-%d\nNodeName=n[1-2] CPUs=2 RealMemory=1000\nPartitionName=debug Nodes=ALL Default=YES\n", ports[0], ports[0]+20)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.up("--config", conf, "--virtual")
	c.script("prog", "#!/bin/sh\necho copied\n")
	if r := c.try("srun", "-N2", "--bcast="+c.work+"/own", "./prog"); r.code != 0 || r.out != "copied\ncopied\n" {
		t.Errorf("exit %d, prints %s\n%s", r.code, r.out, r.err)
	}
}
