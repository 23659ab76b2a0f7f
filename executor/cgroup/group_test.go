package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestBornInsideWithItsCPUs(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 7, "batch", Limits{CPUs: []int{1}, MemoryBytes: 256 << 20})
		out := output(t, g, "where")
		if !strings.Contains(out, "cpu 1\n") || strings.Contains(out, "cpu 0\n") {
			t.Errorf("the job does not run on CPU 1 alone:\n%s", out)
		}
		for name, path := range g.Paths() {
			// Every directory of the group appears in the child's own view.
			if want := path[strings.Index(path, tree.cfg.Under):]; !strings.Contains(out, want+"\n") {
				t.Errorf("%s: the job is not in %s:\n%s", name, want, out)
			}
		}
		// The thread that forked has left.
		pids, err := g.Procs()
		if err != nil || len(pids) != 0 {
			t.Errorf("after the job the group holds %v, %v", pids, err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestLayout(t *testing.T) {
	for name, h := range hosts(t) {
		for _, node := range []string{"", "n1"} {
			tree := newTree(t, h, Config{Node: node})
			g := mustCreate(t, tree, 12, "0", Limits{})
			want := "/slurm/uid_0/job_12/step_0"
			switch {
			case h.Mode == V2 && node != "":
				want = "/system.slice/n1_slurmstepd.scope/job_12/step_0"
			case h.Mode == V2:
				want = "/system.slice/slurmstepd.scope/job_12/step_0"
			case node != "":
				want = "/slurm_n1/uid_0/job_12/step_0"
			}
			for hier, p := range g.Paths() {
				if hier == "cpuacct" && h.Mode == Hybrid {
					p += "/step_0" // a job's only
				}
				if !strings.HasSuffix(p, tree.cfg.Under+want) {
					t.Errorf("%s: %s: got %s, want …%s", name, hier, p, want)
				}
				if _, err := os.Stat(g.Paths()[hier]); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestMemoryLimitKillsAndIsCounted(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		none := uint64(0)
		job, err := tree.CreateJob(1, 0, Limits{MemoryBytes: 64 << 20, SwapBytes: &none})
		if err != nil {
			t.Fatal(err)
		}
		g, err := job.CreateStep("batch", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := start(t, g, "take", "200")
		err = c.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the job that took too much ended with %v, want SIGKILL", err)
		}
		for _, x := range []*Group{g, job} {
			if n, err := x.OOMKills(); err != nil || n != 1 {
				t.Errorf("%s: %d kills, %v; want 1", x.Name(), n, err)
			}
			s, err := x.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if s.Has&HasMemoryPeak != 0 && (s.MemoryPeakBytes < 48<<20 || s.MemoryPeakBytes > 72<<20) {
				t.Errorf("%s: peak %d, want about 64 MiB", x.Name(), s.MemoryPeakBytes)
			}
		}
		if s, _ := job.Stats(); s.Has&HasOOMKills == 0 {
			t.Error("kills are not among the stats")
		}
		if out := output(t, g, "take", "20"); out != "taken\n" {
			t.Errorf("a modest process in the same step: %s", out)
		}
	})
}

func TestDevices(t *testing.T) {
	// Harmless devices of distinct numbers stand for GPUs.
	nodes := []string{"/dev/zero", "/dev/full", "/dev/random"}
	each(t, func(t *testing.T, tree *Tree) {
		checkDevices(t, tree, nodes)
	})
	if h, ok := hosts(t)["hybrid"]; ok && h.find("devices") != nil {
		t.Run("hybrid by controller", func(t *testing.T) {
			tree := newTree(t, h, Config{})
			tree.guard.how = byController
			checkDevices(t, tree, nodes)
		})
	}
}

func checkDevices(t *testing.T, tree *Tree, nodes []string) {
	var all []Device
	for _, n := range nodes {
		var st unix.Stat_t
		if err := unix.Stat(n, &st); err != nil {
			t.Fatal(err)
		}
		all = append(all, Device{'c', unix.Major(st.Rdev), unix.Minor(st.Rdev)})
	}
	if len(tree.Gaps()) > 0 {
		for _, g := range tree.Gaps() {
			if g.What == gapDevices {
				t.Fatal(g)
			}
		}
	}
	expect := func(g *Group, want ...string) {
		t.Helper()
		got := strings.Fields(output(t, g, "open", nodes...))
		for i, n := range nodes {
			if got[2*i+1] != want[i] {
				t.Errorf("%s: got %s, want %s", n, got[2*i+1], want[i])
			}
		}
		if out := output(t, g, "open", "/dev/null"); !strings.Contains(out, "ok") {
			t.Errorf("/dev/null: %s", out)
		}
	}
	one := mustCreate(t, tree, 1, "batch", Limits{DenyDevices: all, AllowDevices: all[1:2]})
	expect(one, "EPERM", "ok", "EPERM")
	none := mustCreate(t, tree, 2, "batch", Limits{DenyDevices: all})
	expect(none, "EPERM", "EPERM", "EPERM")
	job, err := tree.Find(2, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Update(Limits{DenyDevices: all, AllowDevices: all[:1]}); err != nil {
		t.Fatal(err)
	}
	expect(none, "ok", "EPERM", "EPERM")
	if err := job.Update(Limits{DenyDevices: all}); err != nil {
		t.Fatal(err)
	}
	expect(none, "EPERM", "EPERM", "EPERM")
	// A step may have fewer devices than its job, never more.
	wide, err := tree.CreateJob(3, 0, Limits{DenyDevices: all, AllowDevices: all[:2]})
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := wide.CreateStep("0", Limits{DenyDevices: all, AllowDevices: all[1:]})
	if err != nil {
		t.Fatal(err)
	}
	expect(narrow, "EPERM", "ok", "EPERM")
}

func TestFreeze(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{})
		c, _ := start(t, g, "spin", "60000")
		within(t, 60*time.Second, "the job uses the CPU", func() bool {
			s, err := g.Stats()
			return err == nil && s.CPUUser+s.CPUSystem > 20*time.Millisecond
		})
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		if err := g.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if f, err := g.Frozen(); err != nil || !f {
			t.Errorf("Frozen: %v, %v", f, err)
		}
		// Another job's use of the CPU is the clock: in the time in which it gets that much, this one gets none.
		witness := mustCreate(t, tree, 2, "batch", Limits{})
		before, _ := g.Stats()
		w, _ := start(t, witness, "spin", "60")
		if err := w.Wait(); err != nil {
			t.Fatal(err)
		}
		after, _ := g.Stats()
		if d := after.CPUUser + after.CPUSystem - before.CPUUser - before.CPUSystem; d > 20*time.Millisecond {
			t.Errorf("a frozen job used %v", d)
		}
		if err := g.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
		within(t, 60*time.Second, "the job goes on", func() bool {
			s, _ := g.Stats()
			return s.CPUUser+s.CPUSystem > after.CPUUser+after.CPUSystem+10*time.Millisecond
		})
		// A frozen job can be killed.
		if err := g.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	})
}

func TestKillForkBomb(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{PIDs: 60, MemoryBytes: 1 << 30})
		c, _ := start(t, g, "bomb")
		within(t, 20*time.Second, "the bomb spreads", func() bool {
			pids, err := g.Procs()
			return err == nil && len(pids) >= 6
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if pids, err := g.Procs(); err != nil || len(pids) > 0 {
			t.Errorf("left: %v, %v", pids, err)
		}
		_ = c.Wait()
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestProcessLimit(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{PIDs: 40})
		_, out := start(t, g, "fork", "100")
		within(t, 20*time.Second, "the job has met the limit", func() bool {
			n := uint64(0) // which of the two groups counts it differs between kernels
			for _, hier := range []string{"pids", "unified"} {
				if dir := g.Paths()[hier]; dir != "" {
					for _, d := range []string{dir, filepath.Dir(dir)} {
						k, _ := readKeys(filepath.Join(d, "pids.events"))
						n += k["max"]
					}
				}
			}
			return n > 0
		})
		job, err := tree.Find(1, "")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := job.Stats(); err != nil || s.PIDs == 0 || s.PIDs > 40 {
			t.Errorf("%d processes and threads, %v: %s", s.PIDs, err, out)
		}
	})
}

func TestStrayGrandchildIsFoundAndKilled(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 99, "3", Limits{})
		output(t, g, "stray")
		entries, err := tree.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 2 || entries[0].Job != 99 || entries[0].Step != "" || entries[1].Step != "3" || len(entries[1].PIDs) != 1 || len(entries[0].PIDs) != 1 {
			t.Fatalf("listed: %+v", entries)
		}
		if tree.Mode() != V2 && entries[0].UID != 0 {
			t.Errorf("user %d", entries[0].UID)
		}
		// What another supervisor would do with it.
		again, err := open(tree.host, tree.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Create(99, "3", 0, Limits{}, Limits{}); !errors.Is(err, ErrBusy) {
			t.Errorf("making a group that has processes: %v", err)
		}
		job, err := again.Find(99, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Remove(); !errors.Is(err, ErrBusy) {
			t.Errorf("removing a group that has processes: %v", err)
		}
		if err := job.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := job.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Find(99, ""); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after removal: %v", err)
		}
		if entries, _ := again.List(); len(entries) != 0 {
			t.Errorf("after removal: %+v", entries)
		}
	})
}

func TestStats(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{})
		output(t, g, "spin", "200")
		s, err := g.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if sum := s.CPUUser + s.CPUSystem; sum < 190*time.Millisecond || sum > 5*time.Second || s.CPUUser == 0 {
			t.Errorf("CPU of 200 ms of spinning: user %v, system %v", s.CPUUser, s.CPUSystem)
		}
		c, out := start(t, g, "take", "30", "stay")
		within(t, 60*time.Second, "the memory is taken", func() bool {
			s, _ := g.Stats()
			return s.MemoryBytes > 30<<20
		})
		if s, _ = g.Stats(); s.MemoryPeakBytes < s.MemoryBytes || s.Has&HasMemory == 0 {
			t.Errorf("%+v: %s", s, out)
		}
		if err := g.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
	})
}

func TestMadeAnewCountsFromNothing(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{})
		output(t, g, "spin", "100")
		job, err := tree.CreateJob(1, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		g, err = job.CreateStep("batch", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := g.Stats(); err != nil || s.CPUUser+s.CPUSystem > time.Millisecond {
			t.Errorf("a new group begins with %+v, %v", s, err)
		}
	})
}

func TestUpdate(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		g := mustCreate(t, tree, 1, "batch", Limits{CPUs: []int{0}, MemoryBytes: 100 << 20})
		job, err := tree.Find(1, "")
		if err != nil {
			t.Fatal(err)
		}
		none := uint64(0)
		for _, mib := range []uint64{200, 50} {
			if err := job.Update(Limits{MemoryBytes: mib << 20, SwapBytes: &none}); err != nil {
				t.Fatal(err)
			}
			d, _ := job.dir("memory")
			file := "memory.limit_in_bytes"
			if d.v2 {
				file = "memory.max"
			}
			if n, err := readUint(filepath.Join(d.path, file)); err != nil || n != mib<<20 {
				t.Errorf("limit %d, %v; want %d MiB", n, err, mib)
			}
		}
		// The step goes where its job goes.
		if err := job.Update(Limits{CPUs: []int{1}}); err != nil {
			t.Fatal(err)
		}
		if out := output(t, g, "where"); !strings.Contains(out, "cpu 1\n") || strings.Contains(out, "cpu 0\n") {
			t.Errorf("after the move to CPU 1:\n%s", out)
		}
	})
}

func TestStepWithinItsJob(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		job, err := tree.CreateJob(1, 0, Limits{CPUs: []int{0, 1}})
		if err != nil {
			t.Fatal(err)
		}
		wide, err := job.CreateStep("0", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		narrow, err := job.CreateStep("1", Limits{CPUs: []int{1}, PIDs: 50})
		if err != nil {
			t.Fatal(err)
		}
		if out := output(t, narrow, "where"); strings.Contains(out, "cpu 0\n") || !strings.Contains(out, "cpu 1\n") {
			t.Errorf("the narrow step:\n%s", out)
		}
		if out := output(t, wide, "where"); !strings.Contains(out, "cpu 0\n") || !strings.Contains(out, "cpu 1\n") {
			t.Errorf("the wide step:\n%s", out)
		}
		// The narrow one moves first when the job shrinks to it.
		if err := job.Update(Limits{CPUs: []int{1}}); err != nil {
			t.Fatal(err)
		}
		if out := output(t, wide, "where"); strings.Contains(out, "cpu 0\n") {
			t.Errorf("the wide step after its job shrank:\n%s", out)
		}
		if _, err := job.CreateStep("0", Limits{}); err != nil {
			t.Errorf("a step made anew: %v", err)
		}
		if _, err := narrow.CreateStep("2", Limits{}); err == nil {
			t.Error("a step has a step")
		}
		if _, err := job.CreateStep("../x", Limits{}); err == nil {
			t.Error("a step may be called ../x")
		}
		// Removing a step leaves what it shared with its job.
		if err := wide.Remove(); err != nil {
			t.Fatal(err)
		}
		if out := output(t, narrow, "where"); strings.Contains(out, "cpu 0\n") {
			t.Errorf("the narrow step at the end:\n%s", out)
		}
	})
}

func TestFailedLimitLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		if _, err := tree.Create(1, "batch", 0, Limits{CPUs: []int{999}}, Limits{}); err == nil {
			t.Error("CPU 999 was accepted")
		}
		if e, err := tree.List(); err != nil || len(e) != 0 {
			t.Errorf("left: %+v, %v", e, err)
		}
	})
}

// A job's group is made with its first step, and is as large as the job whatever that step has.
func TestSmallFirstStep(t *testing.T) {
	each(t, func(t *testing.T, tree *Tree) {
		whole := Limits{CPUs: []int{0, 1}, MemoryBytes: 256 << 20}
		step := func(name string, l Limits) *Group {
			g, err := tree.Create(8, name, os.Getuid(), whole, l)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		small := step("0", Limits{CPUs: []int{1}, MemoryBytes: 64 << 20})
		large := step("1", Limits{})
		middle := step("2", Limits{CPUs: []int{0, 1}, MemoryBytes: 128 << 20})
		for _, c := range []struct {
			group *Group
			cpus  string
		}{{small, "cpu 1\n"}, {large, "cpu 0\ncpu 1\n"}, {middle, "cpu 0\ncpu 1\n"}} {
			if out := output(t, c.group, "where"); !strings.Contains(out, c.cpus) {
				t.Errorf("%s: not %q in\n%s", c.group.Name(), c.cpus, out)
			}
		}
		job, err := tree.Find(8, "")
		if err != nil {
			t.Fatal(err)
		}
		for g, want := range map[*Group]uint64{job: whole.MemoryBytes, small: 64 << 20, middle: 128 << 20} {
			d, ok := g.dir("memory")
			if !ok {
				continue
			}
			file := "memory.limit_in_bytes"
			if d.v2 {
				file = "memory.max"
			}
			if have, err := readUint(filepath.Join(d.path, file)); err != nil || have != want {
				t.Errorf("%s: memory %d, %v, not %d", g.Name(), have, err, want)
			}
		}
	})
}

func TestUnprivileged(t *testing.T) {
	h, err := detect("/proc", 1000)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := open(h, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if tree.Active() || len(tree.Gaps()) != 1 || !strings.Contains(tree.Gaps()[0].String(), "not root") {
		t.Errorf("active %v, gaps %v", tree.Active(), tree.Gaps())
	}
	g, err := tree.Create(1, "batch", 1000, Limits{CPUs: []int{0}, MemoryBytes: 1 << 20}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if out := output(t, g, "where"); !strings.Contains(out, "cpu 0") {
		t.Error(out)
	}
	if err := g.Kill(t.Context()); !errors.Is(err, ErrNoGroups) {
		t.Errorf("Kill: %v", err)
	}
	if err := g.Remove(); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if e, err := tree.List(); err != nil || len(e) != 0 {
		t.Errorf("List: %v, %v", e, err)
	}
}
