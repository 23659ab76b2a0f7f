package commands

// command is one of Slurm's names.
type command struct {
	name    string
	summary string
	run     func(args []string, w *World) int
	stays   bool // it does several things at once, for as long as its tasks run
}

// table is the commands there are, in alphabetical order. It is a function, so that nothing is made as a program starts.
func table() []command {
	return []command{
		{"sacct", "show what jobs there were and what they used", sacct, false},
		{"sacctmgr", "show and change accounts, users, QoS and their limits", sacctmgr, false},
		{"salloc", "hold nodes while a command runs here", salloc, true},
		{"sattach", "attach to the tasks of a step that runs", sattach, true},
		{"sbatch", "submit a batch script", sbatch, false},
		{"sbcast", "copy a file to the nodes of a job", sbcast, true},
		{"scancel", "end jobs, or send them signals", scancel, false},
		{"scontrol", "show and change jobs, nodes and the cluster", scontrol, false},
		{"scrontab", "jobs that recur: list, edit or replace the crontab", scrontab, false},
		{"sdiag", "show what the controller and this host's agent did", sdiag, false},
		{"sinfo", "show partitions and nodes", sinfo, false},
		{"slurmctld", "tell the controller's version", func(args []string, w *World) int { return daemon("slurmctld", args, w) }, false},
		{"slurmd", "tell a node's version, hardware and devices", func(args []string, w *World) int { return daemon("slurmd", args, w) }, false},
		{"slurmdbd", "tell the accounting's version", func(args []string, w *World) int { return daemon("slurmdbd", args, w) }, false},
		{"squeue", "show the queue", squeue, false},
		{"srun", "run tasks of a parallel job", srun, true},
		{"sstat", "show what steps use at this moment", sstat, false},
		{"strigger", "programs that run when something happens", strigger, false},
	}
}

// find returns the command of a name, nil if there is none.
func find(name string) *command {
	for _, c := range table() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// Names are the commands there are, in alphabetical order.
func Names() []string {
	var names []string
	for _, c := range table() {
		names = append(names, c.name)
	}
	return names
}

// Has reports whether name is a command of Slurm's that Stint has.
func Has(name string) bool { return find(name) != nil }

// Stays reports whether a command does several things at once, for as long as its tasks run; the others do one after another.
func Stays(name string) bool { return find(name).stays }

// Summary says in a few words what a command does.
func Summary(name string) string { return find(name).summary }
