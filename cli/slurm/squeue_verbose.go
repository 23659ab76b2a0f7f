package slurm

import (
	"fmt"
	"slices"
	"strings"

	"stint/events/hostlist"
)

// Asked is the block in which squeue -v says what it was asked for: one `name = value` a line between rules, (null) for what was not
// given. Twice -v adds the lists, an item a line. uid turns a user's name into a number.
func (q *Squeue) Asked(uid func(string) string) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-11s = %s\n", name, value) }
	flag := func(v bool) string { return fmt.Sprint(v) }
	digit := func(v bool) string { return map[bool]string{true: "1", false: "0"}[v] }
	text := func(s string) string {
		if s == "" {
			return "(null)"
		}
		return s
	}
	list := func(words []string) string { return text(strings.Join(words, ",")) }
	nodes, _ := hostlist.Expand(q.Nodes, hostlist.MaxHosts)
	rule := strings.Repeat("-", 29) + "\n"
	b.WriteString(rule)
	line("all", flag(q.All || len(q.Partitions) > 0))
	line("array", flag(q.Array))
	line("federation", "false")
	line("format", text(q.Format))
	line("iterate", fmt.Sprint(q.Iterate))
	line("job_flag", digit(q.HasJobs))
	line("jobs", list(q.Jobs))
	line("licenses", list(q.Licenses))
	line("local", flag(q.Local))
	line("names", list(q.Names))
	line("nodes", hostlist.Compress(nodes))
	line("partitions", list(q.Partitions))
	line("priority", flag(q.PerPartition))
	line("reservation", text(q.Reservation))
	b.WriteString("sibling      = " + flag(q.Sibling) + "\n") // the one that is out of line
	line("sort", text(q.Sort))
	line("start_flag", digit(q.Start))
	line("states", text(q.StatesText))
	line("step_flag", digit(q.Steps))
	line("steps", list(q.StepIDs))
	line("users", list(q.Users))
	line("verbose", fmt.Sprint(q.Verbose))
	if q.Verbose > 1 {
		items := func(name string, words []string) {
			for i, w := range words {
				fmt.Fprintf(&b, "%s[%d] = %s\n", name, i, w)
			}
		}
		items("job_list", q.Jobs)
		items("name_list", q.Names)
		items("licenses_list", q.Licenses)
		items("part_list", q.Partitions)
		var states []string
		for _, s := range q.States.States {
			states = append(states, s.Word())
		}
		items("state_list", states)
		users := slices.Clone(q.Users)
		for i, u := range users {
			users[i] = uid(u)
		}
		items("user_list", users)
	}
	b.WriteString(rule + "\n\n")
	return b.String()
}
