package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// GPUs are more than a variable: a job can open the device files it was given and no others.
func TestGPUDevices(t *testing.T) {
	needRoot(t)
	before := map[string]bool{}
	for _, d := range glob("/run/stint-gpu-*") {
		before[d] = true
	}
	c := start(t, "--nodes", "n1", "--cpus", "4", "--memory", "4000", "--gres", "gpu:a100:3")
	var devices []string
	for _, d := range glob("/run/stint-gpu-*") {
		if !before[d] {
			devices = append(devices, d)
		}
	}
	if len(devices) != 1 {
		t.Fatalf("the simulated devices of the node: %v", devices)
	}
	c.script("probe.sh", `#!/bin/sh
for f in `+devices[0]+`/0/gpu?; do
  if (: < $f) 2>/dev/null; then printf '%s ' "${f##*/}"; fi
done
echo "[$CUDA_VISIBLE_DEVICES]"
until [ -e go ]; do sleep 0.05; done
`)
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	two := c.submit("--gres=gpu:2", "probe.sh")
	c.await(two, "COMPLETED")
	if got := c.read("slurm-" + two + ".out"); got != "gpu0 gpu1 [0,1]\n" {
		t.Errorf("a job with two GPUs opened: %q", got)
	}
	none := c.submit("probe.sh")
	c.await(none, "COMPLETED")
	if got := c.read("slurm-" + none + ".out"); got != "[]\n" {
		t.Errorf("a job without GPUs opened: %q", got)
	}
	os.Remove(filepath.Join(c.work, "go"))
	first, second := c.submit("--gres=gpu:1", "probe.sh"), c.submit("--gres=gpu:2", "probe.sh")
	c.await(first, "RUNNING")
	c.await(second, "RUNNING")
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	c.await(first, "COMPLETED")
	c.await(second, "COMPLETED")
	one, other := c.read("slurm-"+first+".out"), c.read("slurm-"+second+".out")
	if !strings.HasPrefix(one, "gpu0 [0]") || !strings.HasPrefix(other, "gpu1 gpu2 [1,2]") {
		t.Errorf("two jobs beside each other opened %q and %q", one, other)
	}
	c.do("stint", "down")
	if left := glob(devices[0]); len(left) > 0 {
		t.Errorf("the simulated devices were left behind: %v", left)
	}
}

func glob(pattern string) []string {
	list, _ := filepath.Glob(pattern)
	return list
}
