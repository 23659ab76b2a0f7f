package supervisor

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"
)

// sampler reads the processes of steps; those of the whole machine at most once.
type sampler struct {
	s   *supervisor
	all []stat
}

// procs are the processes of a step.
func (r *sampler) procs(st *step) ([]stat, error) {
	var procs []stat
	if st.cage != nil {
		pids, err := st.cage.Pids()
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			if p, err := readStat(pid); err == nil {
				procs = append(procs, p)
			}
		}
		return procs, nil
	}
	if r.all == nil {
		var err error
		if r.all, err = allProcesses(); err != nil {
			return nil, err
		}
	}
	mine := map[int]bool{}
	for _, pid := range r.s.treeOf(st, r.all) {
		mine[pid] = true
	}
	for _, p := range r.all {
		if mine[p.pid] {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

// sample takes one sample of a step. A keeper is none of what it keeps.
func (r *sampler) sample(st *step) (*Usage, []stat, error) {
	procs, err := r.procs(st)
	if err != nil {
		return nil, nil, err
	}
	var byTask map[uint32][]stat
	if st.launching.Keeper {
		procs = slices.DeleteFunc(procs, func(p stat) bool { return p.pid == int(st.birth.Pid) })
		byTask = st.byTask(procs)
	}
	r.s.mu.Lock()
	u := st.usage.take(procs, readIO).CloneVT()
	for rank, own := range byTask {
		if st.tasks == nil {
			st.tasks = map[uint32]*tally{}
		}
		if st.tasks[rank] == nil {
			st.tasks[rank] = &tally{}
		}
		st.tasks[rank].take(own, readIO)
	}
	u.Tasks = st.taskUsage()
	r.s.mu.Unlock()
	if st.cage != nil && !st.launching.Keeper {
		err = st.cage.Usage(u)
	}
	return u, procs, err
}

// byTask sorts the processes of a keeper by the task that they descend from. One whose parents are gone is known by its session
// or by its group, which are its task's.
func (st *step) byTask(procs []stat) map[uint32][]stat {
	keeper := int(st.birth.Pid)
	byPid := map[int]stat{}
	for _, p := range procs {
		byPid[p.pid] = p
	}
	out := map[uint32][]stat{}
	for _, p := range procs {
		root, ok := p, true
		for range len(procs) {
			if root.ppid == keeper || !ok {
				break
			}
			var up stat
			if up, ok = byPid[root.ppid]; ok {
				root = up
			}
		}
		at := root.pid
		if root.ppid != keeper {
			at = root.group
		}
		if rank, known := st.rankOf(at); known {
			out[rank] = append(out[rank], p)
		}
	}
	return out
}

// rankOf is the rank of the task that is a process, as its environment has it. It is remembered: the number may outlive the process.
func (st *step) rankOf(pid int) (uint32, bool) {
	if r, ok := st.ranks[pid]; ok {
		return r, true
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return 0, false
	}
	for nv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(nv, []byte("SLURM_PROCID=")); ok {
			n, err := strconv.ParseUint(string(v), 10, 32)
			if err != nil {
				return 0, false
			}
			if st.ranks == nil {
				st.ranks = map[int]uint32{}
			}
			st.ranks[pid] = uint32(n)
			return uint32(n), true
		}
	}
	return 0, false
}

// taskUsage is what was seen of a keeper's tasks, by their ranks. The caller holds s.mu.
func (st *step) taskUsage() []*TaskUsage {
	var out []*TaskUsage
	for rank, t := range st.tasks {
		out = append(out, &TaskUsage{Rank: rank, Usage: t.now})
	}
	slices.SortFunc(out, func(a, b *TaskUsage) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}

// alive are the steps that run now.
func (s *supervisor) alive(which func(*step) bool) []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []*step
	for _, st := range s.live {
		if st.birth != nil && !st.ended() && which(st) {
			steps = append(steps, st)
		}
	}
	return steps
}

// sample looks at what the steps use whose turn it is, tells the watchers, and ends those that have too much memory.
func (s *supervisor) sample(now int64) {
	r := &sampler{s: s}
	s.sampling.Lock()
	defer s.sampling.Unlock()
	for _, st := range s.alive(func(st *step) bool { return s.turn(st, now) }) {
		u, _, err := r.sample(st)
		if err != nil {
			continue // it is just ending
		}
		if most := st.launching.GetWatching().GetMemoryBytes(); most > 0 && u.RssBytes > most {
			s.tooBig(st, u.RssBytes, most)
		}
		s.mu.Lock()
		st.sampled = now
		s.publish(&Reply{Answer: &Reply_Sample{&Sample{Key: st.launching.Key, AtUnixNs: unixNow(), Usage: u}}})
		s.mu.Unlock()
	}
}

// turn says whether a step's usage is to be looked at now. The caller holds s.mu.
func (s *supervisor) turn(st *step, now int64) bool {
	every := int64(s.conf.SampleEvery)
	switch ms := st.launching.Watching.GetEveryMs(); {
	case ms < 0:
		return false
	case ms > 0:
		every = ms * int64(time.Millisecond)
	}
	if st.sampled == 0 {
		st.sampled = st.birth.StartedMonoNs
	}
	return now-st.sampled >= every-every/20 // a tick may come early
}

// look takes a sample of some steps of a run at once.
func (s *supervisor) look(l *Look) *Looked {
	r := &sampler{s: s}
	s.sampling.Lock()
	defer s.sampling.Unlock()
	out := &Looked{}
	for _, st := range s.alive(func(st *step) bool {
		return st.id.job == l.Job && st.id.run == l.Run && (len(l.Steps) == 0 || slices.Contains(l.Steps, st.id.step))
	}) {
		u, procs, err := r.sample(st)
		if err != nil {
			continue
		}
		use := &Use{Key: st.launching.Key, Usage: u}
		for _, p := range procs {
			use.Pids = append(use.Pids, int32(p.pid))
		}
		out.Uses = append(out.Uses, use)
	}
	slices.SortFunc(out.Uses, func(a, b *Use) int { return cmp.Compare(a.Key.Step, b.Key.Step) })
	return out
}
