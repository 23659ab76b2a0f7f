package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/cli/site"
	"stint/executor"
	"stint/executor/cgroup"
	"stint/executor/supervisor"
	"stint/projections"
)

// What jobs have left behind on this host: control groups of jobs that no supervisor knows, with processes or without, steps that run on although
// the log has the job's end, and simulated GPUs of nodes that do not run.

// held is what supervisors hold of a cluster on this host.
type held struct {
	under string          // where its control groups are
	nodes map[string]bool // whose supervisors run
	known bool            // whether steps tells of all of these nodes
	steps map[string]bool // "NODE JOB"
}

// checkLeft looks for what is left behind. What changes while it looks is not: it looks twice.
func checkLeft(r *report, s *scene) {
	if os.Geteuid() != 0 {
		return // groups and devices in /run are root's
	}
	r.on("looking for the control groups of jobs")
	host, err := cgroup.Detect()
	if err != nil {
		return // checkGroups says so
	}
	before, err := host.Find()
	if err != nil {
		r.add(note, "left behind", "", "not all control groups could be looked at: %v", err)
	}
	all := map[string]*held{}
	for _, p := range daemonsHere("", true) {
		h := all[p.dir]
		if h == nil {
			h = &held{under: underOf(p.dir), nodes: map[string]bool{}}
			if c, err := site.Dir(p.dir).Load(); err == nil {
				h.under = c.Under
			}
			all[p.dir] = h
		}
		if p.role == "supervisor" {
			h.nodes[p.node] = true
		}
	}
	own := all[filepath.Clean(string(s.dir))]
	if own != nil {
		r.on("asking the supervisors what runs")
		own.ask(s.dir)
	}
	after, _ := host.Find()
	there := map[string]cgroup.Found{}
	for _, f := range before {
		there[f.Dirs[0]] = f
	}
	after = slices.DeleteFunc(after, func(f cgroup.Found) bool { _, is := there[f.Dirs[0]]; return !is })
	n := judgeGroups(r, after, own, all)
	n += judgeDevices(r, executor.AllDevices(), all)
	r.on("asking the cluster which jobs are over")
	n += judgeEnded(r, own, s.answersOver(own))
	if n == 0 {
		r.add(well, "left behind", "", "nothing of jobs that are over, or of clusters that do not run")
	}
}

// underOf is where the control groups of a cluster are that is not the only one of its machine.
func underOf(dir string) string { return fmt.Sprintf("stint-%08x", crc32.ChecksumIEEE([]byte(dir))) }

// ask learns which jobs the supervisors of a cluster hold.
func (h *held) ask(dir site.Dir) {
	h.known, h.steps = true, map[string]bool{}
	for n := range h.nodes {
		err := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), checkTime/2)
			defer cancel()
			c, err := supervisor.Dial(ctx, supervisor.SocketPath(dir.Node(n)))
			if err != nil {
				return err
			}
			defer c.Close()
			l, err := c.List(ctx)
			if err != nil {
				return err
			}
			for _, step := range l.Running {
				h.steps[n+" "+strconv.FormatUint(step.GetStarted().GetKey().GetJob(), 10)] = true
			}
			for _, step := range l.Exited { // its group goes when the end is told
				h.steps[n+" "+strconv.FormatUint(step.GetKey().GetJob(), 10)] = true
			}
			for _, k := range l.Launching {
				h.steps[n+" "+strconv.FormatUint(k.GetJob(), 10)] = true
			}
			return nil
		}()
		if err != nil {
			h.known = false // checkSupervisors says so
		}
	}
}

// judgeGroups tells of groups of jobs that no supervisor holds, and returns how many.
func judgeGroups(r *report, found []cgroup.Found, own *held, all map[string]*held) (n int) {
	for _, f := range found {
		var whose *held
		for _, h := range all {
			if h.under == f.Under || h.under == "" && !strings.HasPrefix(f.Under, "stint-") {
				whose = h
			}
		}
		what := ""
		switch {
		case whose == nil && !strings.HasPrefix(f.Under, "stint-"):
			continue // another program's, as far as one can tell
		case whose == nil:
			what = "of a cluster that does not run here (" + f.Under + ")"
		case whose != own:
			continue // its own doctor looks
		case f.Node != "" && !own.nodes[f.Node]:
			what = "of the node " + f.Node + ", which has no supervisor here"
		case !own.known || f.Node == "" && len(own.nodes) != 1:
			continue
		default:
			node := f.Node
			for only := range own.nodes {
				if node == "" {
					node = only
				}
			}
			if own.steps[node+" "+strconv.FormatUint(f.Job, 10)] {
				continue
			}
			what = "which no supervisor knows to run"
			if f.Node != "" {
				what = "of the node " + f.Node + ", " + what
			}
		}
		n++
		do := "rmdir them: find " + strings.Join(f.Dirs, " ") + " -depth -type d -exec rmdir {} +"
		if len(f.PIDs) == 0 {
			level := warning
			if whose == nil {
				level = note
			}
			r.add(level, "left behind", do, "an empty control group of job %d, %s", f.Job, what)
			continue
		}
		pids := strings.Trim(fmt.Sprint(f.PIDs), "[]")
		r.add(warning, "left behind", "end them if they are nobody's: kill -9 "+pids+"; then "+do, "%s of job %d, %s", is(len(f.PIDs), "process runs", "processes run"), f.Job, what)
	}
	return n
}

// judgeDevices tells of simulated GPUs whose node does not run, and returns of how many nodes.
func judgeDevices(r *report, devices []executor.Devices, all map[string]*held) (n int) {
	for _, d := range devices {
		dir := filepath.Dir(filepath.Dir(d.Of)) // as site.Dir.Node has it
		if all[dir] != nil {
			continue
		}
		n++
		if _, err := os.Lstat(d.Of); errors.Is(err, fs.ErrNotExist) {
			r.add(note, "left behind", "the next `stint up` of root removes them, or: rm -r "+d.Dir, "simulated GPUs in %s of a node that is gone (%s)", d.Dir, d.Of)
			continue
		}
		r.add(note, "left behind", "stint down --dir "+quote(dir)+", or `stint up` there", "simulated GPUs in %s of a cluster that does not run (%s)", d.Dir, dir)
	}
	return n
}

// endedLong is how long a job must be over before steps of it that run are left behind: until then they are being ended.
const endedLong = 2 * time.Minute

// judgeEnded tells of jobs that the log has the end of and whose steps run, and returns how many. jobs are those of own's steps.
func judgeEnded(r *report, own *held, jobs []*projections.JobView) (n int) {
	for _, v := range jobs {
		j := v.GetJob()
		if !j.State.Final() || time.Since(time.UnixMicro(j.GetEndUs())) < endedLong {
			continue
		}
		for key := range own.steps {
			node, id, _ := strings.Cut(key, " ")
			if id != strconv.FormatUint(uint64(j.GetId()), 10) {
				continue
			}
			n++
			r.add(warning, "left behind", "its executor ends it as soon as it hears of it: look at its log, and at processes that the kernel does not let go (state D)", "job %d is over (%s) by the log, and runs on node %s", j.GetId(), j.State, node)
		}
	}
	return n
}

// answersOver asks for the jobs whose steps are held; none if nobody answers.
func (s *scene) answersOver(own *held) []*projections.JobView {
	if own == nil || len(own.steps) == 0 {
		return nil
	}
	var ids []uint32
	for key := range own.steps {
		_, id, _ := strings.Cut(key, " ")
		if n, err := strconv.ParseUint(id, 10, 32); err == nil && len(ids) < 1000 {
			ids = append(ids, uint32(n))
		}
	}
	conn, err := dial(s.dir)
	if err != nil {
		return nil
	}
	defer conn.Close()
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Ids: ids, AllStates: true, Slim: true}}})
	if err != nil {
		return nil
	}
	return a.GetJobs().GetJobs()
}
