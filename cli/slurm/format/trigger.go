package format

import (
	"fmt"
	"strconv"

	"stint/cli/slurm/once"
	"stint/events"
)

// TriggerHeader is the header of strigger --get.
const TriggerHeader = "TRIG_ID RES_TYPE   RES_ID TYPE                                OFFSET USER     FLAGS PROGRAM\n"

var triggerOf = once.Value[map[events.TriggerOf]string]{Make: func() map[events.TriggerOf]string {
	return map[events.TriggerOf]string{
		events.TriggerOf_TRIGGER_NODE: "node", events.TriggerOf_TRIGGER_JOB: "job", events.TriggerOf_TRIGGER_CONTROLLER: "slurmctld",
	}

}}
var triggerKinds = once.Value[map[events.TriggerKind]string]{Make: func() map[events.TriggerKind]string {
	return map[events.TriggerKind]string{
		events.TriggerKind_TRIGGER_UP: "up", events.TriggerKind_TRIGGER_DOWN: "down", events.TriggerKind_TRIGGER_FAIL: "fail", events.TriggerKind_TRIGGER_TIME: "time",
		events.TriggerKind_TRIGGER_FINI: "fini", events.TriggerKind_TRIGGER_RECONFIG: "reconfig", events.TriggerKind_TRIGGER_IDLE: "idle", events.TriggerKind_TRIGGER_DRAINED: "drained",
		events.TriggerKind_TRIGGER_DRAINING: "draining", events.TriggerKind_TRIGGER_RESUME: "resume",
		events.TriggerKind_TRIGGER_CONTROLLER_FAILED: "primary_slurmctld_failure", events.TriggerKind_TRIGGER_CONTROLLER_RESUMED: "primary_slurmctld_resumed_operation",
		events.TriggerKind_TRIGGER_CONTROL_RESUMED: "primary_slurmctld_resumed_control", events.TriggerKind_TRIGGER_CONTROL_ASSUMED: "backup_slurmctld_assumed_control",
	}

}}

// TriggerRow is a line of strigger --get. As in Slurm, one that waits for several things is of an unknown type.
func TriggerRow(t *events.Trigger) string {
	kind, about, flags := "unknown", t.GetNodes(), ""
	if len(t.GetKinds()) == 1 {
		kind = triggerKinds.Get()[t.GetKinds()[0]]
	}
	switch t.GetOf() {
	case events.TriggerOf_TRIGGER_JOB:
		about = strconv.FormatUint(uint64(t.GetJob()), 10)
	case events.TriggerOf_TRIGGER_CONTROLLER:
		about = "*"
	}
	if t.GetPermanent() {
		flags = "PERM"
	}
	user := t.GetOwner().GetUser()
	if user == "" {
		user = "unknown"
	}
	return fmt.Sprintf("%7d %-9s %7s %-35s %6d %-8s %-5s %s\n", t.GetId(), triggerOf.Get()[t.GetOf()], about, kind, t.GetOffsetS(), user, flags, t.GetProgram())
}
