package commands

import (
	"fmt"
	"io"
	"strings"

	"stint/cli/slurm"
	"stint/events/idset"
	"stint/executor/machine"
	"stint/projections"
)

// daemon answers what tools ask of Slurm's daemons by their names.
func daemon(name string, args []string, w *World) int {
	d, err := slurm.ReadDaemon(name, w.input(args))
	switch {
	case err != nil:
		return w.complain(name, err)
	case d.Print != "":
		io.WriteString(w.Stdout, d.Print)
		return 0
	case d.Hardware:
		return hardware(d, w)
	}
	return devices(d, w)
}

// hardware prints this machine as a line of slurm.conf.
func hardware(d *slurm.Daemon, w *World) int {
	m, err := machine.Read("/", "/tmp")
	if err != nil {
		return w.complain("slurmd", err)
	}
	node := d.Node
	if node == "" {
		node = m.Hostname
	}
	fmt.Fprintf(w.Stdout, "NodeName=%s CPUs=%d Boards=1 SocketsPerBoard=%d CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d\n", node, m.CPUs(), m.Sockets, m.CoresPerSocket, m.ThreadsPerCore, m.MemoryMiB)
	up := int(m.Uptime.Seconds())
	fmt.Fprintf(w.Stdout, "UpTime=%d-%02d:%02d:%02d\n", up/86400, up/3600%24, up/60%60, up%60)
	return 0
}

// devices names what a node registered with. Slurm's daemon says it in its log, which is standard error.
func devices(d *slurm.Daemon, w *World) int {
	a, err := w.ask("slurmd", &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
	if err != nil {
		return w.unmet("slurmd", err)
	}
	name := d.Node
	if name == "" {
		name = w.Host
	}
	for _, n := range a.GetNodes().GetNodes() {
		if n.GetName() != name {
			continue
		}
		for _, g := range n.GetGres() {
			fmt.Fprintf(w.Stderr, "slurmd: Gres Name=%s Type=%s Count=%d", g.GetName(), g.GetType(), g.GetCount())
			var files []string
			for _, dev := range n.GetInventory().GetDevices() {
				if dev.GetName() == g.GetName() && dev.GetType() == g.GetType() && dev.GetFile() != "" {
					files = append(files, dev.GetFile())
				}
			}
			if files != nil {
				fmt.Fprintf(w.Stderr, " Index=%s File=%s", idset.Range(0, len(files)-1, 1), strings.Join(files, ","))
			}
			fmt.Fprintln(w.Stderr)
		}
		return 0
	}
	return w.complain("slurmd", fmt.Errorf("there is no node %s", name))
}
