package projections

import (
	"slices"

	"stint/events"
)

// replyPolicy: the parts of the policy that were asked for, in the order of State.
func replyPolicy(r Reader, q *AskPolicy, sight Sight) *AnswerPolicy {
	p := r.Policy()
	all := p.State()
	want := func(part PolicyPart) bool {
		return len(q.GetParts()) == 0 || slices.Contains(q.GetParts(), part) || slices.Contains(q.GetParts(), PolicyPart_PART_ALL)
	}
	// What PrivateData keeps for administrators is not there for others. Records are by name and who asks is known by number,
	// so their own are not there either.
	if sight.Private(events.Private_PRIVATE_ACCOUNTS) {
		all.Accounts, all.Associations, all.Transactions = nil, nil, nil
	}
	if sight.Private(events.Private_PRIVATE_USERS) {
		all.Users, all.Associations, all.Transactions = nil, nil, nil
	}
	if !want(PolicyPart_PART_CLUSTERS) {
		all.Clusters = nil
	}
	if !want(PolicyPart_PART_ACCOUNTS) {
		all.Accounts = nil
	}
	if !want(PolicyPart_PART_USERS) {
		all.Users = nil
	}
	if !want(PolicyPart_PART_ASSOCIATIONS) {
		all.Associations = nil
	}
	if !want(PolicyPart_PART_QOS) {
		all.Qos = nil
	}
	if !want(PolicyPart_PART_WCKEYS) {
		all.Wckeys = nil
	}
	if !want(PolicyPart_PART_TRANSACTIONS) {
		all.Transactions = nil
	}
	if !q.GetDeleted() {
		all.Clusters = slices.DeleteFunc(all.Clusters, func(x *ClusterName) bool { return x.Deleted })
		all.Accounts = slices.DeleteFunc(all.Accounts, func(x *Account) bool { return x.Deleted })
		all.Users = slices.DeleteFunc(all.Users, func(x *User) bool { return x.Deleted })
		all.Associations = slices.DeleteFunc(all.Associations, func(x *Association) bool { return x.Deleted })
		all.Qos = slices.DeleteFunc(all.Qos, func(x *Qos) bool { return x.Deleted })
		all.Wckeys = slices.DeleteFunc(all.Wckeys, func(x *Wckey) bool { return x.Deleted })
	}
	config := r.Config()
	return &AnswerPolicy{Policy: all, Config: config, Controller: r.Term().Controller}
}
