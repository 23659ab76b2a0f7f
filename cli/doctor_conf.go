package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"stint/cli/site"
	"stint/cli/slurm/conf"
	"stint/events"
	"stint/events/hostlist"
	"stint/executor/tasks"
	"stint/scheduler/plan"
)

// checkConf reads the site's file as a start would.
func checkConf(r *report, s *scene) {
	c, err := s.dir.Load()
	if err != nil {
		return
	}
	if c.ConfFile == "" {
		r.add(well, "configuration", "", "made from this machine by `stint up`: there is no file")
		return
	}
	r.on("reading %s", c.ConfFile)
	if _, err := os.Stat(c.ConfFile); errors.Is(err, fs.ErrNotExist) {
		r.add(fault, "configuration", "put it back, or name another: stint up --config FILE; what is in force goes on meanwhile", "the cluster's file %s is not there", c.ConfFile)
		return
	}
	read, err := conf.Load(c.ConfFile, os.ReadFile)
	if err == nil {
		err = read.Refusal()
	}
	if err != nil {
		r.add(fault, "configuration", "correct the line; what is in force goes on until then, and the next `stint up` or scontrol reconfigure fails", "%s cannot be taken over: %s", c.ConfFile, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	r.add(well, "configuration", "", "%s", c.ConfFile)
	for _, w := range read.Warnings {
		r.add(warning, "configuration", "", "%s", w)
	}
	keys := map[string][]string{} // what becomes of them, to the keys
	var order []string
	for _, n := range read.Notes {
		if keys[n.Text] == nil {
			order = append(order, n.Text)
		}
		keys[n.Text] = append(keys[n.Text], n.Key)
	}
	for _, text := range order {
		r.add(note, "configuration", "", "%s: %s", strings.Join(keys[text], ", "), text)
	}
	if kind := read.Config.Setting("MpiDefault"); strings.HasPrefix(strings.ToLower(kind), "pmix") && besides(tasks.PMIxProgram) == "" {
		r.add(warning, "MPI", "build it where PMIx's library is (docs/mpi.md), on every node; or start MPI programs with mpirun",
			"MpiDefault=%s, and %s is not beside this program: tasks that srun starts do not find each other", kind, tasks.PMIxProgram)
	}
	if _, _, err := site.LocalNodes(read.Config, c.Asked); err != nil {
		r.add(fault, "configuration", "hostname says what this host is called; NodeName= or NodeHostname= must say the same, or start with --virtual", "%v", err)
	}
}

// checkInForce compares the site's file with what was taken over from it into the log, and looks at what is in force.
func checkInForce(r *report, s *scene) {
	a := s.answers()
	if a.config == nil {
		return
	}
	force := a.config.GetConfig()
	if a.config.GetSeq() == 0 {
		r.add(fault, "in force", "`stint up`, or scontrol reconfigure", "no configuration was ever taken over into the log: nothing can run")
		return
	}
	judgeForce(r, force)
	c, err := s.dir.Load()
	if err != nil {
		return
	}
	owner, err := ownerOf(string(s.dir))
	if err != nil {
		return
	}
	given := a.config.GetGiven()
	if given == nil {
		given = force
	}
	r.on("reading what the configuration is made from (%s)", c.ConfFile)
	file, _, err := site.Reread(c, uint32(owner))
	if err != nil {
		return // checkConf says so
	}
	judgeDrift(r, a.config.GetSeq(), given, force, file)
}

// judgeDrift says what the file has that is not in force, and what is in force that the file has not.
func judgeDrift(r *report, seq uint64, given, force, file *events.Config) {
	changes, err := plan.Differences(given, file)
	switch {
	case err != nil:
		r.add(warning, "in force", "", "the file and what is in force cannot be compared: %v", err)
	case len(changes) > 0:
		r.add(warning, "in force", "`stint plan` says what it would change; scontrol reconfigure takes it over", "the file was changed since it was taken over, and this is not in force: %s", some(changes))
	default:
		r.add(well, "in force", "", "as the file has it, since %d", seq)
	}
	if changes, err = plan.Differences(given, force); err == nil && len(changes) > 0 {
		r.add(note, "in force", "write them into the file: scontrol reconfigure ends them", "administrators changed with scontrol, and it is not in the file: %s", some(changes))
	}
}

// some writes the first of what differs.
func some(changes []string) string {
	const most = 6
	if len(changes) > most {
		return strings.Join(changes[:most], "; ") + fmt.Sprintf("; and %d more", len(changes)-most)
	}
	return strings.Join(changes, "; ")
}

// judgeForce looks for what in a configuration keeps jobs from running although it is allowed.
func judgeForce(r *report, c *events.Config) {
	in := map[string]bool{} // nodes that some partition has
	all := map[string]bool{}
	for _, def := range c.GetNodes() {
		names, err := hostlist.Expand(def.Names, hostlist.MaxHosts)
		if err != nil {
			continue
		}
		for _, n := range names {
			all[n] = true
		}
	}
	defaults := 0
	for _, p := range c.GetPartitions() {
		if p.Default {
			defaults++
		}
		names := []string{}
		if strings.EqualFold(p.Nodes, "ALL") {
			for n := range all {
				names = append(names, n)
			}
		} else if list, err := hostlist.Expand(p.Nodes, hostlist.MaxHosts); err == nil {
			names = list
		}
		for _, n := range names {
			in[n] = true
		}
		for _, k := range []struct {
			wrong bool
			text  string
		}{
			{p.MaxTimeS == 0, "lets no job run for any time (MaxTime=0)"},
			{p.MaxNodes == 0, "lets no job have a node (MaxNodes=0)"},
			{p.MinNodes > uint32(len(names)) && len(names) > 0, fmt.Sprintf("wants at least %d nodes of each job, and has %d", p.MinNodes, len(names))},
		} {
			if k.wrong {
				r.add(warning, "partitions", "correct it in slurm.conf, then: scontrol reconfigure", "partition %s %s", p.Name, k.text)
			}
		}
	}
	if len(c.GetPartitions()) == 0 {
		r.add(fault, "partitions", "add a PartitionName= line to slurm.conf, then: scontrol reconfigure", "there is no partition: no job can run")
	} else if defaults == 0 {
		r.add(note, "partitions", "Default=YES on one", "no partition is the default: who submits must name one (-p)")
	}
	var nowhere []string
	for n := range all {
		if !in[n] {
			nowhere = append(nowhere, n)
		}
	}
	if len(nowhere) > 0 {
		slices.Sort(nowhere)
		r.add(warning, "partitions", "name them in Nodes= of a partition, then: scontrol reconfigure", "%s %s in no partition: no job runs there", hostlist.Compress(nowhere), plural(len(nowhere), "is", "are"))
	}
	for _, l := range c.GetLicenses() {
		if l.Count == 0 {
			r.add(warning, "licenses", "correct Licenses= in slurm.conf, then: scontrol reconfigure", "there are 0 of the licence %s: jobs that ask for it never run", l.Name)
		}
	}
	if c.GetMaxJobCount() == 0 {
		r.add(warning, "limits", "correct MaxJobCount= in slurm.conf", "MaxJobCount=0: no job is taken")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
