package site

import (
	"fmt"
	"os"
	"syscall"

	"stint/events"
	"stint/events/hostlist"
)

// RereadSignal says to the processes of a cluster that cluster.json was written anew. It is not SIGHUP: that is what a closing
// terminal sends, and `stint up` in a terminal ends with it.
const RereadSignal = syscall.SIGUSR1

// HostName is this host's, as its agent's subject has it.
func HostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// LocalNodes returns the nodes that have their executors on this machine, and whether they are played; virtual: all of them are to be.
func LocalNodes(c *events.Config, virtual bool) (names []string, played bool, err error) {
	here := HostName()
	var all []string
	for _, def := range c.Nodes {
		list, err := hostlist.Expand(def.Names, hostlist.MaxHosts)
		if err != nil {
			return nil, false, fmt.Errorf("the nodes %s: %w", def.Names, err)
		}
		all = append(all, list...)
		played = played || def.Virtual
		if def.Virtual {
			names = append(names, list...)
			continue
		}
		hosts, _ := hostlist.Expand(def.HostNames, hostlist.MaxHosts)
		addresses, _ := hostlist.Expand(def.Addresses, hostlist.MaxHosts)
		for i, n := range list {
			if isHere(n, here) || i < len(hosts) && isHere(hosts[i], here) || i < len(addresses) && isHere(addresses[i], here) {
				names = append(names, n)
			}
		}
	}
	if virtual {
		if len(all) > NodesMost {
			return nil, false, fmt.Errorf("--virtual would play all %d nodes of the configuration on this host, which plays %d at most; leave it out, or give a configuration of fewer nodes", len(all), NodesMost)
		}
		for _, def := range c.Nodes {
			def.Virtual = true
		}
		return all, true, nil
	}
	if len(names) == 0 {
		return nil, false, fmt.Errorf("none of the %d nodes of the configuration is this host (%s); name it with NodeName= or NodeHostname=, or play them all here with --virtual", len(all), here)
	}
	if len(names) > 1 && !played { // several nodes on one host share what it has
		for _, def := range c.Nodes {
			def.Virtual = true
		}
		played = true
	}
	return names, played, nil
}

func isHere(name, here string) bool {
	return name == here || name == "localhost" || name == "127.0.0.1"
}

// Reread reads again what the configuration of a cluster is made from, its file or the machine, and notes in c what follows
// from it for this host: which nodes have their executors here. owner is whose the cluster is.
func Reread(c *Cluster, owner uint32) (config *events.Config, notes []string, err error) {
	if c.ConfFile != "" {
		config, notes, err = ReadConf(c.ConfFile, owner)
	} else {
		config, err = OneMachine(c.Options, owner)
	}
	if err != nil {
		return nil, nil, err
	}
	if !c.Embedded && len(c.Nodes) == 0 {
		return config, notes, nil // a host of a larger cluster that plays no node
	}
	if c.Nodes, c.Virtual, err = LocalNodes(config, c.Asked); err != nil {
		return nil, nil, err
	}
	c.Name, c.Compat = config.Cluster, config.Compat
	return config, notes, nil
}
