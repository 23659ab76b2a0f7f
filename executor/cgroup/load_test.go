package cgroup

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestManyAtOnce makes, uses and removes groups from many goroutines: the kernel answers some of it with EBUSY and EINTR,
// and no process or thread may end up in another's group.
func TestManyAtOnce(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		path = "/proc/self/exe" // in the small virtual machine: the test binary, which then does nothing
	}
	each(t, func(t *testing.T, tree *Tree) {
		const users, jobs = 6, 25
		var wg sync.WaitGroup
		for u := range users {
			wg.Go(func() {
				for j := range jobs {
					if err := oneOfMany(tree, path, uint64(u*jobs+j+1), u); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if e, err := tree.List(); err != nil || len(e) > 0 {
			t.Errorf("left: %+v, %v", e, err)
		}
	})
}

func oneOfMany(tree *Tree, path string, id uint64, uid int) error {
	job, err := tree.CreateJob(id, uid, Limits{CPUs: []int{int(id) % 2}, MemoryBytes: 128 << 20, PIDs: 64})
	if err != nil {
		return err
	}
	g, err := job.CreateStep("batch", Limits{})
	if err != nil {
		return err
	}
	var pid int
	attr := &syscall.SysProcAttr{Setsid: true}
	err = g.Launch(attr, func() (err error) {
		pid, err = syscall.ForkExec(path, []string{"true", "-test.run=^$"}, &syscall.ProcAttr{Sys: attr, Env: []string{"GOMAXPROCS=1", "STINT_CGROUP_ROLE=nothing"}})
		return err
	})
	if err != nil {
		return err
	}
	pids, err := g.Procs()
	if err != nil {
		return err
	}
	for _, p := range pids {
		if p != pid {
			return fmt.Errorf("%s holds process %d beside its own %d", g.Name(), p, pid)
		}
	}
	var ws syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &ws, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil || ws != 0 {
		return fmt.Errorf("%s: status %v, %v", g.Name(), ws, err)
	}
	if s, err := g.Stats(); err != nil || s.Has&HasCPU == 0 || s.CPUUser+s.CPUSystem > 60*time.Second {
		return fmt.Errorf("%s: %+v, %v", g.Name(), s, err)
	}
	if err := g.Remove(); err != nil {
		return err
	}
	return job.Remove()
}
