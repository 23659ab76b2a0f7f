package commands

import (
	"stint/cli/slurm/once"
	"stint/events"
)

// refusals are the sentences for codes that tools look for, word for word. What admission said more precisely comes before
// them on a line of its own.
var refusals = once.Value[map[events.Code]string]{Make: func() map[events.Code]string {
	return map[events.Code]string{
		events.Code_INVALID_PARTITION:       "Invalid partition name specified",
		events.Code_INVALID_ACCOUNT:         "Invalid account or account/partition combination specified",
		events.Code_INVALID_QOS:             "Invalid qos specification",
		events.Code_INVALID_FEATURE:         "Invalid feature specification",
		events.Code_NODE_CONFIG_UNAVAILABLE: "Requested node configuration is not available",
		events.Code_INVALID_TIME_LIMIT:      "Requested time limit is invalid (missing or exceeds some limit)",
		events.Code_TOO_MANY_CPUS:           "More processors requested than permitted",
		events.Code_POLICY:                  "Job violates accounting policy (job submit limit, user's size and/or time limits)",
		events.Code_INVALID_GRES:            "Invalid generic resource (gres) specification",
		events.Code_UNKNOWN_JOB:             "Invalid job id specified",
		events.Code_ACCESS_DENIED:           "Access/permission denied",
		events.Code_UNKNOWN_STEP:            "Invalid job id specified",
		events.Code_ALREADY_DONE:            "Job/step already completing or completed",
		events.Code_INVALID_ARRAY:           "Invalid job array specification",
		events.Code_INVALID_DEPENDENCY:      "Job dependency problem",
		events.Code_INVALID_NODE:            "Invalid node name specified",
		events.Code_PARTITION_DOWN:          "Required partition not available (inactive or drain)",
		events.Code_PARTITION_ACCESS:        "User's group not permitted to use this partition",
		events.Code_NOT_REQUEUEABLE:         "Requested operation is presently disabled",
		events.Code_INVALID_MEMORY:          "Memory required by task is not available",
		events.Code_INVALID_NODE_COUNT:      "Node count specification invalid",
		events.Code_INVALID_LICENSE:         "Invalid license specification",
		events.Code_INVALID_RESERVATION:     "Requested reservation is invalid",
		events.Code_INVALID_NODE_STATE:      "Invalid node state specified",
		events.Code_PARTITION_IN_USE:        "Partition is in use",
		events.Code_PARTITION_EXISTS:        "Invalid partition name specified",
		events.Code_NOT_WHOLE_HET_JOB:       "Operation not permitted on individual component of heterogeneous job",
		events.Code_NOT_HET_JOB_LEADER:      "Job not heterogeneous job leader",
		events.Code_RATE_LIMITED:            "Too many requests",
		events.Code_QUEUE_FULL:              "Slurm temporarily unable to accept job, sleeping and retrying",
		events.Code_CRON_CANCEL:             "Cannot cancel scrontab jobs without --cron flag.",
		events.Code_CRON_CHANGE:             "Cannot modify scrontab jobs through scontrol",
		events.Code_DUPLICATE_TRIGGER:       "Duplicate event trigger",
		events.Code_NO_TRIGGER:              "No such process",
		events.Code_ROOT_DENIED:             "Access/permission denied",
	}
}}

// private is the sentence for what PrivateData keeps from the caller.
func private(what string) string {
	return refusals.Get()[events.Code_ACCESS_DENIED] + ": PrivateData in slurm.conf keeps " + what + " for administrators"
}

// refused is the text for a refusal: what was said precisely, and on the last line the sentence of its kind.
func refused(code events.Code, text string) string {
	known := refusals.Get()[code]
	switch {
	case known == "":
		if text == "" {
			return "refused (" + code.String() + ")"
		}
		return text
	case text == "" || text == known:
		return known
	}
	return text + "\n" + known
}
