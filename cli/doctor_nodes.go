package cli

import (
	"fmt"
	"strings"
	"time"

	"stint/events/hostlist"
	"stint/projections"
)

// mostAhead is how far a node's clock may be from the controller's before times that people see contradict each other.
const mostAhead = 2 * time.Second

// checkNodes says how the nodes are.
func checkNodes(r *report, s *scene) {
	if a := s.answers(); a.nodes != nil {
		judgeNodes(r, a.nodes, Build())
	}
}

// judgeNodes says which nodes do not serve as they should, those with the same to say together.
func judgeNodes(r *report, a *projections.AnswerNodes, version string) {
	if a.GetNodesPrivate() {
		r.add(note, "nodes", "ask as an administrator", "the state of nodes is kept from you (PrivateData)")
		return
	}
	type saying struct{ level, check, do, text string }
	said := map[saying][]string{}
	var order []saying
	say := func(node string, s saying) {
		if said[s] == nil {
			order = append(order, s)
		}
		said[s] = append(said[s], node)
	}
	fine := 0
	for _, n := range a.GetNodes() {
		why := ""
		if n.Reason != "" {
			why = ": " + n.Reason
		}
		resume := "when the cause is mended: scontrol update nodename=%s state=resume"
		switch {
		case n.Future:
		case n.Unfit != "":
			say(n.Name, saying{warning, "nodes", resume, "could not start a job and get no more: " + n.Unfit})
		case n.Invalid:
			say(n.Name, saying{warning, "nodes", "mend the machine, or correct the configuration: scontrol show node %s has both", "have less than is configured" + why})
		case n.Lost:
			say(n.Name, saying{warning, "nodes", "look after the machine, its network and its stint-executor", "are down: nothing was heard of them" + why})
		case n.Down:
			say(n.Name, saying{warning, "nodes", resume, "were set down" + why})
		case n.Fail:
			say(n.Name, saying{warning, "nodes", resume, "were set to fail" + why})
		case n.Drain:
			say(n.Name, saying{warning, "nodes", resume, "are drained" + why})
		case !n.Up:
			say(n.Name, saying{warning, "nodes", "start their executors: `stint up`, or stint-executor@%s", "have not registered"})
		default:
			fine++
		}
		if n.Up && n.Version != "" && n.Version != version {
			say(n.Name, saying{warning, "versions", "install the same version there, and restart their executors: jobs go on", "run version " + n.Version + ", this program is " + version})
		}
		for _, g := range n.Ailing {
			say(n.Name, saying{warning, "devices", "the machine's log says more: dmesg", "have an ailing " + g.Device + ": " + g.Text})
		}
		for _, text := range n.Inventory.GetUnenforced() {
			say(n.Name, saying{note, "limits", "", "do not hold jobs to all they got: " + text})
		}
	}
	for _, n := range a.GetNow() {
		if ahead := time.Duration(n.AheadUs) * time.Microsecond; ahead > mostAhead || ahead < -mostAhead {
			way := "before"
			if ahead < 0 {
				way, ahead = "behind", -ahead
			}
			say(n.Name, saying{warning, "clocks", "keep the clocks of all hosts right: chrony or systemd-timesyncd", fmt.Sprintf("have a clock that is %s %s the controller's", ahead.Round(100*time.Millisecond), way)})
		}
	}
	if fine == 0 && len(a.GetNodes()) > 0 {
		r.add(fault, "nodes", "what is said of them below has to be mended on one at least", "no node takes jobs: of %d none is up and free of orders", len(a.GetNodes()))
	}
	if fine > 0 {
		r.add(well, "nodes", "", "%s", is(fine, "node takes jobs", "nodes take jobs"))
	}
	for _, s := range order {
		names := hostlist.Compress(said[s])
		if len(said[s]) == 1 {
			s.text, s.do = ofOne(s.text), strings.Replace(s.do, "their executors", "its executor", 1)
		}
		r.add(s.level, s.check, strings.ReplaceAll(s.do, "%s", names), "%s %s", names, s.text)
	}
}

// ofOne makes of what is said of several nodes what is said of one.
func ofOne(text string) string {
	verb, rest, _ := strings.Cut(text, " ")
	if one := map[string]string{"are": "is", "were": "was", "have": "has", "run": "runs", "do": "does"}[verb]; one != "" {
		verb = one
	}
	return strings.NewReplacer("and get no more", "and gets no more", "heard of them", "heard of it").Replace(verb + " " + rest)
}
