package differential

import (
	"testing"
)

// TestFigures holds Stint to what jobs are given and told on the clusters of the profiles, without a real Slurm beside it.
func TestFigures(t *testing.T) {
	tools := build(t)
	for _, c := range []struct {
		profile string
		lines   [][2]string // options; nodes | CPUs of each | tasks of each | CPUs in all | memory
	}{
		{"core-mem-threads", [][2]string{
			{"", "n1|2|2|2|200M"},
			{"-n5 --threads-per-core=1", "n1|5|5|10|500M"},
			{"-N3 -n20", "n[1-3]|16,2(x2)|16,2(x2)|20|2000M"},
			{"-N3 -n4", "n[1-3]|2(x3)|2,1(x2)|6|600M"},
			{"-n3 -c3", "n1|10|3|10|1000M"},
			{"-n3 -c3 --ntasks-per-core=1", "n1|12|3|12|1200M"},
			{"-n3 -c3 --hint=nomultithread", "n[1-2]|6,3|2,1|18|900M"},
			{"-n5 --ntasks-per-node=2", "n[1-3]|2(x3)|2(x3)|6|600M"},
			{"-n9 --ntasks-per-socket=2", "n[1-3]|4(x2),2|4,3,2|10|1000M"},
			{"-n4 -c3 -O", "n1|4|4|4|400M"},
			{"-n20 -N2 -O", "n[1-2]|2(x2)|10(x2)|4|400M"},
			{"-B 2:4", "n1|8|8|8|800M"},
			{"--exclusive -n3", "n1|16|3|16|1600M"},
			{"--mem-per-cpu=2500 -N2", "n[1-2]|4(x2)|1(x2)|8|6672M"},
			{"-n1 -w n1,n3", "n1|2|1|2|200M"},
			{"-p gpu --gpus=6", "n[3-4]|2(x2)|2(x2)|4|400M"},
		}},
		{"socket-mem", [][2]string{
			{"", "n1|4|4|4|800M"},
			{"-n2", "n1|8|2|8|1600M"},
			{"-n1 -c4", "n1|4|1|4|800M"},
			{"-N4 -n17", "n[1-4]|8(x4)|5,4(x3)|32|6400M"},
		}},
		{"gpu-defaults", [][2]string{
			{"-p gpu --gpus=3 -n5", "n3|6|5|6|2100M"},
			{"-p gpu --gpus-per-node=1 -N2 -c1", "n[3-4]|1(x2)|1(x2)|2|1400M"},
			{"--ntasks-per-node=5 --mem-per-cpu=1000 -O", "n1|1|5|1|1000M"},
			{"-n1 --mem-per-cpu=2500 --mincpus=4 -w n3,n1", "n1|4|1|4|10000M"},
			{"-N2-4 -n6 -w n[2-4]", "n[1-4]|1,3,1(x2)|1,3,1(x2)|6|600M"},
		}},
		{"cpu-mem-threads", [][2]string{
			{"", "n1|1|1|1|400M"},
			{"-N2 -n3 --mem-per-cpu=300", "n[1-2]|1,2|1,2|3|900M"},
			{"-N1-2 -n12 --mem-per-cpu=1000", "n[1-2]|11,1|11,1|12|12000M"},
			{"-N2-4 -n9", "n[1-4]|5,2,1(x2)|5,2,1(x2)|9|1600M"},
			{"-n3 --ntasks-per-core=1", "n1|3|3|3|400M"},
		}},
		{"one-task-per-core", [][2]string{
			{"-n4", "n1|8|4|8|800M"},
			{"-n3 --ntasks-per-core=2", "n1|4|3|4|400M"},
			{"-n5 --ntasks-per-node=3", "n[1-2]|6(x2)|3(x2)|12|1200M"},
			{"-p gpu --gpus-per-node=3 --cpus-per-gpu=1 --ntasks-per-gpu=2", "n3|6|6|6|600M"},
		}},
		{"max-mem-flat", [][2]string{
			{"-n5 --mem=2G", "n1|5|5|5|2G"},
			{"--mem-per-cpu=1000", "n1|2|1|2|1000M"},
			{"-N1-4 -n16", "n[1-4]|7(x2),1(x2)|7(x2),1(x2)|16|1600M"},
		}},
	} {
		t.Run(c.profile, func(t *testing.T) {
			var lines []string
			for _, l := range c.lines {
				lines = append(lines, l[0])
			}
			for _, p := range profiles {
				if p.name != c.profile {
					continue
				}
				for i, a := range ours(t, tools, p, lines) {
					got := a.Show["NodeList"] + "|" + a.Env["SLURM_JOB_CPUS_PER_NODE"] + "|" + a.Env["SLURM_TASKS_PER_NODE"] + "|" + a.Show["NumCPUs"] + "|" + memoryOf(a.Show["TRES"])
					if !a.Ran || got != c.lines[i][1] {
						t.Errorf("sbatch %s: %s, want %s (ran %v, exit %d, %q)", lines[i], got, c.lines[i][1], a.Ran, a.Exit, a.Err)
					}
				}
			}
		})
	}
}
