package events

import (
	"strconv"
	"strings"
)

// UsualSampling is the seconds between samples where nobody says how many.
const UsualSampling = 30

// Sampling is how often a site looks at what steps use, in seconds (0: never), as JobAcctGatherFrequency and a job's --acctg-freq say, and
// whether a step that is seen to have more memory than it may is ended (JobAcctGatherParams=OverMemoryKill, slurm.conf(5)).
func Sampling(c *Config, freq string) (seconds int, kills bool) {
	seconds = UsualSampling
	none := false
	for _, set := range c.GetSettings() {
		switch strings.ToLower(set.GetKey()) {
		case "jobacctgatherfrequency":
			seconds = taskSeconds(set.GetValue(), seconds)
		case "jobacctgatherparams":
			kills = strings.Contains(strings.ToLower(set.GetValue()), "overmemorykill")
		case "jobacctgathertype":
			none = strings.EqualFold(set.GetValue(), "jobacct_gather/none")
		}
	}
	if none {
		return 0, false
	}
	return taskSeconds(freq, seconds), kills
}

// taskSeconds is the number of seconds between samples of tasks in `N` or `task=N,…`.
func taskSeconds(text string, otherwise int) int {
	for term := range strings.SplitSeq(text, ",") {
		kind, value, named := strings.Cut(term, "=")
		if !named {
			kind, value = "task", term
		}
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n >= 0 && strings.EqualFold(strings.TrimSpace(kind), "task") {
			return n
		}
	}
	return otherwise
}
