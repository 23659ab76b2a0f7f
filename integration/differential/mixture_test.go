package differential

import (
	"math/rand/v2"
	"strings"
)

// choice is one group of options, of which a mixture takes one with a chance of n in a hundred.
type choice struct {
	n    int
	from []string
}

var choices = []choice{
	{55, []string{"-N1", "-N2", "-N2", "-N3", "-N4", "-N1-2", "-N2-4", "-N1-4", "-N3-4", "-N5"}},
	{60, []string{"-n1", "-n2", "-n3", "-n4", "-n5", "-n6", "-n7", "-n8", "-n9", "-n12", "-n16", "-n17", "-n33"}},
	{40, []string{"-c1", "-c2", "-c3", "-c4", "-c5", "-c8", "-c9", "-c17"}},
	{20, []string{"--ntasks-per-node=1", "--ntasks-per-node=2", "--ntasks-per-node=3", "--ntasks-per-node=5"}},
	{8, []string{"--ntasks-per-socket=1", "--ntasks-per-socket=2", "--ntasks-per-socket=3"}},
	{8, []string{"--ntasks-per-core=1", "--ntasks-per-core=2"}},
	{45, []string{"--mem=500", "--mem=0", "--mem=4000", "--mem=16000", "--mem=17000", "--mem=2G", "--mem-per-cpu=100", "--mem-per-cpu=300",
		"--mem-per-cpu=1000", "--mem-per-cpu=3000", "--mem-per-cpu=0", "--mem-per-cpu=2500", "--mem-per-cpu=1G"}},
	{12, []string{"--exclusive", "--exclusive", "--exclusive=user", "-s"}},
	{8, []string{"-O"}},
	{12, []string{"--threads-per-core=1", "--threads-per-core=2", "--hint=nomultithread", "--hint=multithread", "--hint=compute_bound", "--hint=memory_bound"}},
	{6, []string{"--use-min-nodes", "--spread-job", "--contiguous"}},
	{15, []string{"-m block", "-m cyclic", "-m plane=2", "-m block:cyclic", "-m cyclic:block", "-m '*:fcyclic'", "-m block,NoPack", "-m block,Pack", "-m plane=3"}},
	{6, []string{"--mincpus=2", "--mincpus=4", "--mincpus=9"}},
	{8, []string{"-w n2", "-x n1", "-w n3,n1", "-w n[2-4]", "-x n[1-2]"}},
	{6, []string{"--sockets-per-node=1", "--sockets-per-node=2", "--cores-per-socket=4", "-B 1", "-B '2:4'", "-B '*:4:1'", "--cores-per-socket=8"}},
	{5, []string{"-L matlab:1", "--tmp=100", "--gres-flags=enforce-binding", "--requeue", "-t 5", "-t 1-0"}},
}

// devices are choices for jobs that ask for GPUs.
var devices = []choice{
	{100, []string{"--gres=gpu:1", "--gres=gpu:a100:2", "--gres=gpu:4", "--gres=gpu:5", "--gpus=1", "--gpus=2", "--gpus=3", "--gpus=a100:4", "--gpus=6",
		"--gpus-per-node=1", "--gpus-per-node=2", "--gpus-per-node=a100:3", "--gpus-per-task=1", "--gpus-per-task=2", "--gpus-per-task=a100:1",
		"--gpus-per-socket=1 --sockets-per-node=1", "--gpus-per-socket=1", "--gpus=4 --gpus-per-node=2", "--gpus=2 --gpus-per-task=1", "--gpus=8"}},
	{25, []string{"--cpus-per-gpu=1", "--cpus-per-gpu=2", "--cpus-per-gpu=3"}},
	{20, []string{"--mem-per-gpu=200", "--mem-per-gpu=1000", "--mem-per-gpu=5G"}},
	{12, []string{"--ntasks-per-gpu=1", "--ntasks-per-gpu=2"}},
}

// mixture is one line of options.
func mixture(r *rand.Rand) string {
	var words []string
	take := func(list []choice, weight int) {
		for _, c := range list {
			if r.IntN(100)*100 < c.n*weight {
				words = append(words, c.from[r.IntN(len(c.from))])
			}
		}
	}
	if r.IntN(100) < 30 {
		words = append(words, "-p gpu")
		take(devices, 100)
		take(choices, 60)
	} else {
		take(choices, 85)
	}
	return strings.Join(words, " ")
}
