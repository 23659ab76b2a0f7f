package commands

// command is one of Slurm's names.
type command struct {
	name    string
	summary string
	run     func(args []string, w *World) int
}

// table is the commands there are, in alphabetical order. It is a function, so that nothing is made as a program starts.
func table() []command {
	return []command{
		{"sacct", "show what jobs there were and what they used", sacct},
		{"sacctmgr", "show and change accounts, users, QoS and their limits", sacctmgr},
		{"salloc", "hold nodes while a command runs here", salloc},
		{"sattach", "attach to the tasks of a step that runs", sattach},
		{"sbatch", "submit a batch script", sbatch},
		{"sbcast", "copy a file to the nodes of a job", sbcast},
		{"scancel", "end jobs, or send them signals", scancel},
		{"scontrol", "show and change jobs, nodes and the cluster", scontrol},
		{"scrontab", "jobs that recur: list, edit or replace the crontab", scrontab},
		{"sdiag", "show what the controller and this host's agent did", sdiag},
		{"sinfo", "show partitions and nodes", sinfo},
		{"slurmctld", "tell the controller's version", func(args []string, w *World) int { return daemon("slurmctld", args, w) }},
		{"slurmd", "tell a node's version, hardware and devices", func(args []string, w *World) int { return daemon("slurmd", args, w) }},
		{"slurmdbd", "tell the accounting's version", func(args []string, w *World) int { return daemon("slurmdbd", args, w) }},
		{"squeue", "show the queue", squeue},
		{"srun", "run tasks of a parallel job", srun},
		{"sstat", "show what steps use at this moment", sstat},
		{"strigger", "programs that run when something happens", strigger},
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

// Summary says in a few words what a command does.
func Summary(name string) string { return find(name).summary }
