package executor

import (
	"strconv"
	"strings"

	"stint/events"
)

// niceOf is how nice a job's processes are to others, where it was asked for by processes that were so nice: that counts where the site
// propagates it (PropagatePrioProcess=1), and with 2 they are a little nicer than the node's own daemons at least.
func niceOf(config *events.Config, asked int) int32 {
	switch config.Setting("PropagatePrioProcess") {
	case "1":
	case "2":
		asked = max(asked, 1)
	default:
		return 0
	}
	return int32(max(-20, min(asked, 19)))
}

// niceIn is how nice the command was that left an environment.
func niceIn(environ []string) int {
	for _, nv := range environ {
		if v, ok := strings.CutPrefix(nv, "SLURM_PRIO_PROCESS="); ok {
			n, _ := strconv.Atoi(v)
			return n
		}
	}
	return 0
}
