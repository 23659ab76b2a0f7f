package format

import (
	"testing"

	"stint/events"
)

// TestTriggerRows: the lines that Slurm 22.05.8 showed.
func TestTriggerRows(t *testing.T) {
	slurm := &events.Owner{User: "slurm"}
	kinds := func(k ...events.TriggerKind) []events.TriggerKind { return k }
	got := TriggerHeader
	for _, tr := range []*events.Trigger{
		{Id: 1, Kinds: kinds(events.TriggerKind_TRIGGER_DOWN), Nodes: "*", Program: "/bin/true", Owner: slurm},
		{Id: 2, Kinds: kinds(events.TriggerKind_TRIGGER_DOWN, events.TriggerKind_TRIGGER_UP), Nodes: "n1", OffsetS: 5, Program: "/bin/true", Owner: slurm},
		{Id: 3, Kinds: kinds(events.TriggerKind_TRIGGER_RECONFIG), Nodes: "*", Permanent: true, Program: "/bin/true", Owner: slurm},
		{Id: 4, Kinds: kinds(events.TriggerKind_TRIGGER_CONTROLLER_FAILED), Of: events.TriggerOf_TRIGGER_CONTROLLER, Program: "/bin/true", Owner: slurm},
		{Id: 5, Kinds: kinds(events.TriggerKind_TRIGGER_CONTROL_ASSUMED), Of: events.TriggerOf_TRIGGER_CONTROLLER, Program: "/bin/true", Owner: slurm},
		{Id: 6, Kinds: kinds(events.TriggerKind_TRIGGER_IDLE), Nodes: "*", OffsetS: 600, Program: "/bin/false", Owner: slurm},
		{Id: 8, Kinds: kinds(events.TriggerKind_TRIGGER_DRAINED), Nodes: "n[2-3]", Program: "/bin/true", Owner: slurm},
		{Id: 13, Kinds: kinds(events.TriggerKind_TRIGGER_FAIL), Nodes: "*", OffsetS: -5, Program: "/bin/echo a b", Owner: slurm},
	} {
		got += TriggerRow(tr)
	}
	const want = `TRIG_ID RES_TYPE   RES_ID TYPE                                OFFSET USER     FLAGS PROGRAM
      1 node            * down                                     0 slurm          /bin/true
      2 node           n1 unknown                                  5 slurm          /bin/true
      3 node            * reconfig                                 0 slurm    PERM  /bin/true
      4 slurmctld       * primary_slurmctld_failure                0 slurm          /bin/true
      5 slurmctld       * backup_slurmctld_assumed_control         0 slurm          /bin/true
      6 node            * idle                                   600 slurm          /bin/false
      8 node       n[2-3] drained                                  0 slurm          /bin/true
     13 node            * fail                                    -5 slurm          /bin/echo a b
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := TriggerRow(&events.Trigger{Id: 123, Kinds: kinds(events.TriggerKind_TRIGGER_TIME), Of: events.TriggerOf_TRIGGER_JOB, Job: 1235, OffsetS: -600, Owner: &events.Owner{User: "joe"}, Program: "/home/bob/clean_up"}),
		"    123 job          1235 time                                  -600 joe            /home/bob/clean_up\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
