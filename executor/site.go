package executor

import (
	"strconv"
	"strings"

	"stint/events"
	"stint/executor/tasks"
)

// What a site's configuration says about steps (slurm.conf(5)). Keys that are not set say nothing.

// atMost is the number that a key of the configuration says, 0: none.
func atMost(c *events.Config, key string) int {
	n, err := strconv.Atoi(c.Setting(key))
	if err != nil {
		return 0
	}
	return n
}

// siteOf is what a site says to launchers: WaitTime, KillOnBadExit, SrunProlog, SrunEpilog, MpiDefault.
func siteOf(c *events.Config) *tasks.Site {
	s := &tasks.Site{WaitS: uint32(atMost(c, "WaitTime")), KillOnBad: atMost(c, "KillOnBadExit") > 0, Prolog: program(c.Setting("SrunProlog")), Epilog: program(c.Setting("SrunEpilog")), Mpi: strings.ToLower(c.Setting("MpiDefault"))}
	if s.WaitS == 0 && !s.KillOnBad && s.Prolog == "" && s.Epilog == "" && s.Mpi == "" {
		return nil
	}
	return s
}

// portRefused says that a launcher listens outside of SrunPortRange.
func portRefused(c *events.Config, l *tasks.Launcher) *tasks.Reply {
	text := c.Setting("SrunPortRange")
	from, to, ok := tasks.PortRange(text)
	if !ok || from <= l.GetPort() && l.GetPort() <= to {
		return nil
	}
	return refusal(tasks.Refusal_BAD_PORT, "%s", text)
}

// tooMany says that a step would be one more than MaxStepCount, or have more tasks on a node than MaxTasksPerNode.
func tooMany(c *events.Config, before uint32, parts []*tasks.Part) *tasks.Reply {
	if most := atMost(c, "MaxStepCount"); most > 0 && int(before) >= most {
		return refusal(tasks.Refusal_NODE_CONFIG, "Step limit reached for this job")
	}
	if most := atMost(c, "MaxTasksPerNode"); most > 0 {
		for _, p := range parts {
			if len(p.Tasks) > most {
				return refusal(tasks.Refusal_NODE_CONFIG, "Task count specification invalid")
			}
		}
	}
	return nil
}

// program is a program of the site, empty where it is switched off.
func program(value string) string {
	if strings.EqualFold(value, "none") {
		return ""
	}
	return value
}
