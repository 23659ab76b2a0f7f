package integration

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// GPUs are more than a variable: a job can open the device files it was given and no others, neither its node's nor another's.
func TestGPUDevices(t *testing.T) {
	needRoot(t)
	// A cluster that was thrown away without being taken down leaves its devices behind; the next one removes them.
	gone := start(t, "--nodes", "m1", "--cpus", "1", "--memory", "1000", "--gres", "gpu:t4:1")
	stale := devicesOf(t, gone, "m1")
	processes := gone.processes()
	if err := syscall.Kill(processes["up"], syscall.SIGKILL); err != nil { // first, or it would start the others again
		t.Fatal(err)
	}
	for _, pid := range processes {
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	gone.removeGroups()
	if err := os.RemoveAll(gone.dir); err != nil {
		t.Fatal(err)
	}

	c := start(t, "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000", "--gres", "gpu:a100:3")
	if left := glob(stale); len(left) > 0 {
		t.Errorf("the devices of a cluster that is gone were left: %v", left)
	}
	own, other := devicesOf(t, c, "n1"), devicesOf(t, c, "n2")
	c.script("probe.sh", `#!/bin/sh
for f in `+own+`/0/gpu? `+other+`/0/gpu?; do
  case $f in `+other+`/*) n=other-${f##*/} ;; *) n=${f##*/} ;; esac
  if err=$( (: < $f) 2>&1 ); then
    printf '%s ' "$n"
  else
    case $err in *"Operation not permitted"*) ;; *) printf '%s: %s ' "$n" "$err" ;; esac
  fi
done
echo "[$CUDA_VISIBLE_DEVICES]"
until [ -e go ]; do sleep 0.05; done
`)
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	two := c.submit("-w", "n1", "--gres=gpu:2", "probe.sh")
	c.await(two, "COMPLETED")
	if got := c.read("slurm-" + two + ".out"); got != "gpu0 gpu1 [0,1]\n" {
		t.Errorf("a job with two GPUs opened: %q", got)
	}
	none := c.submit("-w", "n1", "probe.sh")
	c.await(none, "COMPLETED")
	if got := c.read("slurm-" + none + ".out"); got != "[]\n" {
		t.Errorf("a job without GPUs opened: %q", got)
	}
	there := c.submit("-w", "n2", "--gres=gpu:1", "probe.sh")
	c.await(there, "COMPLETED")
	if got := c.read("slurm-" + there + ".out"); got != "other-gpu0 [0]\n" {
		t.Errorf("a job on the other node opened: %q", got)
	}
	os.Remove(filepath.Join(c.work, "go"))
	first, second := c.submit("-w", "n1", "--gres=gpu:1", "probe.sh"), c.submit("-w", "n1", "--gres=gpu:2", "probe.sh")
	c.await(first, "RUNNING")
	c.await(second, "RUNNING")
	os.WriteFile(filepath.Join(c.work, "go"), nil, 0o644)
	c.await(first, "COMPLETED")
	c.await(second, "COMPLETED")
	one, more := c.read("slurm-"+first+".out"), c.read("slurm-"+second+".out")
	if !strings.HasPrefix(one, "gpu0 [0]") || !strings.HasPrefix(more, "gpu1 gpu2 [1,2]") {
		t.Errorf("two jobs beside each other opened %q and %q", one, more)
	}
	c.do("stint", "down")
	if left := append(glob(own), glob(other)...); len(left) > 0 {
		t.Errorf("the simulated devices were left behind: %v", left)
	}
}

func glob(pattern string) []string {
	list, _ := filepath.Glob(pattern)
	return list
}

// devicesOf is the folder of a node's simulated GPUs.
func devicesOf(t *testing.T, c *cluster, node string) string {
	t.Helper()
	for _, claim := range glob("/run/stint-gpu-*/of") {
		if of, err := os.ReadFile(claim); err == nil && string(of) == filepath.Join(c.dir, "node", node) {
			return filepath.Dir(claim)
		}
	}
	t.Fatalf("node %s has no simulated devices in /run", node)
	return ""
}

// removeGroups removes the control groups of a cluster whose processes are gone.
func (c *cluster) removeGroups() {
	under := "stint-test-" + filepath.Base(filepath.Dir(c.dir))
	for _, top := range append(glob("/sys/fs/cgroup/*/"+under), glob("/sys/fs/cgroup/"+under)...) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
		for _, d := range dirs {
			c.eventually("control group "+d+" is removed", func() bool {
				err := os.Remove(d)
				return err == nil || errors.Is(err, fs.ErrNotExist)
			})
		}
	}
}
