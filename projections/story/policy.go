package story

import (
	"strconv"
	"strings"

	"stint/events"
)

// policyText says an administrative act in words.
func policyText(a *events.PolicyAct) string {
	deed := map[events.PolicyDeed]string{events.PolicyDeed_POLICY_ADD: "add", events.PolicyDeed_POLICY_MODIFY: "change", events.PolicyDeed_POLICY_DELETE: "remove"}[a.GetDeed()]
	if deed == "" {
		deed = "do something unknown with"
	}
	kind := strings.ToLower(strings.TrimPrefix(a.GetKind().String(), "POLICY_"))
	parts := []string{deed, kind}
	list := func(of string, names []string) {
		if len(names) == 0 {
			return
		}
		more := ""
		if len(names) > 20 {
			more, names = " and "+strconv.Itoa(len(names)-20)+" more", names[:20]
		}
		parts = append(parts, strings.TrimSpace(of+" "+strings.Join(names, ", ")+more))
	}
	list("", a.GetNames())
	list("key", a.GetWckeys())
	list("in account", a.GetAccounts())
	list("for partition", a.GetPartitions())
	list("on cluster", a.GetClusters())
	ids := make([]string, 0, len(a.GetAssociations()))
	for _, id := range a.GetAssociations() {
		ids = append(ids, strconv.Itoa(int(id)))
	}
	list("number", ids)
	if set := a.GetSet().Describe(); set != "" {
		parts = append(parts, "with "+set)
	}
	return strings.Join(parts, " ")
}
