package slurm

import "stint/cli/slurm/once"

// DaemonTables are the options of Slurm's daemons that are answered: those by which tools find out what is installed. Nothing is started by these
// names; Stint's own processes are started by stint.
var DaemonTables = once.Value[map[string]*Table]{Make: func() map[string]*Table {
	return map[string]*Table{
		"slurmctld": {Command: "slurmctld", Usage: "-V", Options: daemonOptions},
		"slurmdbd":  {Command: "slurmdbd", Usage: "-V", Options: daemonOptions},
		"slurmd": {Command: "slurmd", Usage: "-V | -C | -G", Options: append([]Option{
			{"", 'C', None, T1, 0, 0, "", "hardware", "", "print what this machine has, as a line for slurm.conf"},
			{"", 'G', None, T1, 0, 0, "", "gres", "", "print the devices of the node"},
			{"", 'N', Required, T1, 0, 0, "", "node", "NAME", "as this node"},
		}, daemonOptions...)},
	}

}}
var daemonOptions = []Option{
	{"", 'D', None, T1, 0, 0, "", "foreground", "", "in the foreground"},
	{"help", 'h', None, T1, 0, 0, "", "help", "", "show this help"},
	{"usage", 0, None, T1, 0, 0, "", "usage", "", "show one line of help"},
	{"version", 'V', None, T1, 0, 0, "", "version", "", "show the version"},
}

// Daemon is what a call of one of Slurm's daemons asks for.
type Daemon struct {
	Print          string // not empty: print it and exit with 0
	Hardware, Gres bool   // slurmd -C and -G
	Node           string
}

var daemonEffects = once.Value[map[string]func(*Daemon, Given) error]{Make: func() map[string]func(*Daemon, Given) error {
	return map[string]func(*Daemon, Given) error{
		"hardware":   on(func(d *Daemon) *bool { return &d.Hardware }),
		"gres":       on(func(d *Daemon) *bool { return &d.Gres }),
		"node":       word(func(d *Daemon) *string { return &d.Node }),
		"foreground": doneHere[Daemon],
		"help":       doneHere[Daemon],
		"usage":      doneHere[Daemon],
		"version":    doneHere[Daemon],
	}

}}

// ReadDaemon reads a call of slurmctld, slurmd or slurmdbd. The error is a *Failure, that of a call that would start a daemon included.
func ReadDaemon(name string, in Input) (*Daemon, error) {
	d := &Daemon{}
	rest, print, err := readOptions(DaemonTables.Get()[name], in, d, daemonEffects.Get())
	switch {
	case err != nil:
		return nil, err
	case print != "":
		return &Daemon{Print: print}, nil
	case len(rest) > 0:
		return nil, refusal("Unrecognized option: %s; %s takes options only", clip(rest[0]), name)
	case !d.Hardware && !d.Gres:
		return nil, refusal("no daemon is started by the name %s: Stint's are started with `stint up`, or `stint controller`, `stint executor` and `stint ledger`", name)
	}
	return d, nil
}
