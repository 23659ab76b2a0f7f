package slurm

import (
	"strings"
	"testing"

	"stint/events"
)

// TestReadStrigger: what a call asks for, as the trigger it sets, or what it is refused with. The first sentences are those of Slurm 22.05.8.
func TestReadStrigger(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "You must use exactly one of the following options: --set, --get or --clear"},
		{"--get --set", "You must use exactly one of the following options: --set, --get or --clear"},
		{"--clear", "You must specify a --id, --jobid, or --user to clear"},
		{"--set", "You must specify a trigger"},
		{"--set --down", "You must specify a --program value"},
		{"--set --time -p /x", "You must specify a --jobid value"},
		{"--get --fini", "You must specify a --jobid value"},
		{"--set --down -p true", `The --program value must start with "/"`},
		{"--set -j abc -f -p /x", "Invalid jobid abc"},
		{"--set -o 40000 -F -p /x", "The --offset parameter must be between +/-32000"},
		{"--set --flags=foo -d -p /x", "Invalid flags"},
		{"--set -o 5s -d -p /x", `"5s" is not a number of seconds for --offset`},
		{"--get --id=0", "Invalid id"},
		{"--set -B -p /x", "--backup_slurmctld_failure cannot be told here: controllers that stand by are not watched"},
		{"--get -g", "--primary_slurmdbd_failure cannot be told here"},
		{"--set --burst_buffer -p /x", "--burst_buffer cannot be told here"},
		{"--set -e -p /x", "--primary_slurmctld_acct_buffer_full cannot be told here"},
		{"--set -h -p /x", "--primary_database_failure cannot be told here"},
		{"--set --node=n[ -d -p /x", "--node: "},
		{"--set -j 5 --idle -p /x", "one trigger is of nodes, of a job or of controllers"},
		{"--set -j 5 --fini -a -p /x", "one trigger is of nodes, of a job or of controllers"},
		{"--foo", "unrecognized option '--foo'"},

		{"--set --node --down -p /x", "node * down 0 /x"},
		{"--set -d -u -n -p /x --offset 5", "node * down+up 5 /x"},
		{"--set -d -nn[1-2] -o -5 -p /x", "node n[1-2] down -5 /x"},
		{"--set --drained --flags=Permanent --program=/x", "node * drained 0 PERM /x"},
		{"--set -j 12 -t -o -600 -p /x", "job 12 time -600 /x"},
		{"--set -j 12 -n n1 -d -p /x", "job 12 down 0 /x"},
		{"--set -j 12 -tf -p /x", "job 12 time+fini 0 /x"},
		{"--set -a -p /x", "ctld primary_slurmctld_failure 0 /x"},
		{"--set -A -p /x", "ctld primary_slurmctld_resumed_operation 0 /x"},
		{"--set -b -C -p /x", "ctld primary_slurmctld_resumed_control+backup_slurmctld_assumed_control 0 /x"},
		{"--set -r -p /x", "node * reconfig 0 /x"},
		{"--set -I -o 600 -p /x", "node * idle 600 /x"},
		{"--set --draining --resume -p /x", "node * draining+resume 0 /x"},
	} {
		s, err := ReadStrigger(Input{Args: strings.Fields(c.line), Release: Release2605})
		got := ""
		if err != nil {
			got = err.Error()
			if f := err.(*Failure); f.Exit != 1 {
				t.Errorf("strigger %s ends with %d", c.line, f.Exit)
			}
		} else {
			got = spelledTrigger(s.Trigger())
		}
		if err != nil && !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
			t.Errorf("strigger %s: %s, want %s", c.line, got, c.want)
		}
	}
	if _, err := ReadStrigger(Input{Args: []string{"--set", "--draining", "-p", "/x"}, Release: Release2205}); err == nil || !strings.Contains(err.Error(), "since 23.02") {
		t.Errorf("--draining of 22.05: %v", err)
	}
	for _, word := range []string{"--help", "--usage", "-V"} {
		if s, err := ReadStrigger(Input{Args: []string{word}, Release: Release2205}); err != nil || s.Print == "" {
			t.Errorf("strigger %s: %v %v", word, s, err)
		}
	}
}

func spelledTrigger(t *events.Trigger) string {
	words := []string{map[events.TriggerOf]string{events.TriggerOf_TRIGGER_NODE: "node " + t.Nodes, events.TriggerOf_TRIGGER_JOB: "job " + itoa(int(t.Job)), events.TriggerOf_TRIGGER_CONTROLLER: "ctld"}[t.Of]}
	var kinds []string
	for _, k := range t.Kinds {
		kinds = append(kinds, map[events.TriggerKind]string{1: "up", 2: "down", 3: "fail", 4: "time", 5: "fini", 6: "reconfig", 7: "idle", 8: "drained", 9: "draining", 10: "resume",
			11: "primary_slurmctld_failure", 12: "primary_slurmctld_resumed_operation", 13: "primary_slurmctld_resumed_control", 14: "backup_slurmctld_assumed_control"}[k])
	}
	words = append(words, strings.Join(kinds, "+"), itoa(int(t.OffsetS)))
	if t.Permanent {
		words = append(words, "PERM")
	}
	return strings.Join(append(words, t.Program), " ")
}

func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// TestStriggerShows: which triggers --get shows. As in Slurm one that waits for several things is of none of them.
func TestStriggerShows(t *testing.T) {
	owner := func(uid uint32) *events.Owner { return &events.Owner{Uid: uid} }
	all := []*events.Trigger{
		{Id: 1, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_DOWN}, Nodes: "*", Owner: owner(1)},
		{Id: 2, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_DOWN, events.TriggerKind_TRIGGER_UP}, Nodes: "n1", Owner: owner(1)},
		{Id: 3, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_FINI}, Of: events.TriggerOf_TRIGGER_JOB, Job: 7, Owner: owner(2)},
		{Id: 4, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_DOWN}, Of: events.TriggerOf_TRIGGER_JOB, Job: 7, Owner: owner(2)},
		{Id: 5, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_CONTROLLER_FAILED}, Of: events.TriggerOf_TRIGGER_CONTROLLER, Owner: owner(1)},
		{Id: 6, Kinds: []events.TriggerKind{events.TriggerKind_TRIGGER_RECONFIG}, Nodes: "*", Owner: owner(1)},
	}
	for line, want := range map[string]string{
		"--get": "123456", "--get -d": "1", "--get --node": "126", "--get -j 7": "34", "--get -f -j 7": "3", "--get -a": "5", "--get -i 4": "4", "--get --user=2": "34", "--get -r": "123456", "--get -u": "", "--get -j 8": "",
	} {
		s, err := ReadStrigger(Input{Args: strings.Fields(line), Release: Release2205})
		if err != nil {
			t.Fatal(err)
		}
		var uid *uint32
		if s.User == "2" {
			n := uint32(2)
			uid = &n
		}
		got := ""
		for _, one := range all {
			if s.Shows(one, uid) {
				got += itoa(int(one.Id))
			}
		}
		if got != want {
			t.Errorf("strigger %s shows %q, want %q", line, got, want)
		}
	}
}
