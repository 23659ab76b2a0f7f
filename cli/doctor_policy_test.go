package cli

import (
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

func TestDoctorNamesWhatHasNoEffect(t *testing.T) {
	p := &projections.PolicyState{
		Associations: []*projections.Association{{Limits: []*events.LimitValue{{Limit: events.Limit_SHARES}, {Limit: events.Limit_GRP_TRES}}}, {Limits: []*events.LimitValue{{Limit: events.Limit_SHARES}}}},
		Qos:          []*projections.Qos{{Preempt: []string{"low"}, Flags: []string{"NoDecay"}}, {}},
	}
	if got := strings.Join(withoutEffect(p), "; "); got != "grp_tres; preempt; shares; the flag NoDecay" {
		t.Errorf("it names %s", got)
	}
	if got := withoutEffect(&projections.PolicyState{Qos: []*projections.Qos{{}}}); len(got) > 0 {
		t.Errorf("of a policy without limits it names %v", got)
	}
}
