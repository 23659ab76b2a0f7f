package slurm

import (
	"fmt"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/hostlist"
	"stint/projections"
)

// Letter is one mail about a job: what MailProg is called with. Sites take its subject and its environment apart, so both
// are as Slurm has them.
type Letter struct {
	To      string
	Subject string
	Env     []string // NAME=value
}

// JobNews is what happened to a job, as far as a letter is about it.
type JobNews struct {
	Kind    uint32 // one of the bits of mail
	Job     *projections.Job
	Array   *projections.Array // not nil: a digest of the whole array, or of its beginning
	Least   uint32             // of a digest: the lowest exit code of its tasks
	Cluster string
	Domain  string // of addresses that name none
}

// mailWords are the words of the subject for each kind.
var mailWords = once.Value[map[uint32]string]{Make: func() map[uint32]string {
	return map[uint32]string{
		MailBegin: "Began", MailEnd: "Ended", MailFail: "Failed", MailRequeue: "Requeued", MailTimeLimit: "Reached time limit",
		MailTimeLimit90: "Reached 90% of time limit", MailTimeLimit80: "Reached 80% of time limit", MailTimeLimit50: "Reached 50% of time limit",
		MailInvalidDepend: "Invalid dependency",
	}

}}

// Write makes the letter. now is for what still runs, microseconds.
func (n *JobNews) Write(now int64) Letter {
	j, word := n.Job, mailWords.Get()[n.Kind]
	spec := j.GetSpec()
	l := Letter{To: spec.GetMailUser()}
	if l.To == "" {
		l.To = j.GetOwner().GetUser()
	}
	if n.Domain != "" && !strings.Contains(l.To, "@") {
		l.To += "@" + strings.TrimPrefix(n.Domain, "@")
	}
	state := j.State.Word()
	switch {
	case n.Array != nil:
		l.Subject = fmt.Sprintf("Slurm Array Summary Job_id=%d_* (%d) Name=%s %s", j.ArrayId, j.ArrayId, spec.GetName(), word)
	case j.HasTask:
		l.Subject = fmt.Sprintf("Slurm Array Task Job_id=%d_%d (%d) Name=%s %s", j.ArrayId, j.ArrayTask, j.Id, spec.GetName(), word)
	default:
		l.Subject = fmt.Sprintf("Slurm Job_id=%d Name=%s %s", j.Id, spec.GetName(), word)
	}
	over := n.Kind == MailEnd || n.Kind == MailFail
	queued, ran := "", ""
	switch {
	case n.Kind == MailBegin:
		queued = since(max(j.StartUs-j.SubmitUs, 0))
	case j.StartUs == 0 || n.Kind == MailInvalidDepend:
		ran = since(0)
	case (over || n.Kind == MailRequeue) && j.EndUs > 0:
		ran = since(max(j.EndUs-j.StartUs, 0))
	default:
		ran = since(max(now-j.StartUs, 0))
	}
	switch {
	case n.Array != nil && over && n.Array.MaxExitSignal > 0 && n.Array.MaxExitCode == 0:
		l.Subject += fmt.Sprintf(", %s, MaxSignal [%d]", digestState(n, state), n.Array.MaxExitSignal)
	case n.Array != nil && over:
		l.Subject += fmt.Sprintf(", %s, ExitCode [%d-%d]", digestState(n, state), n.Least, n.Array.MaxExitCode)
	case n.Array != nil:
	case queued != "":
		l.Subject += ", Queued time " + queued
	case over && j.ExitSignal != 0 && j.State != events.JobState_CANCELLED:
		l.Subject += fmt.Sprintf(", Run time %s, %s", ran, state)
	case over:
		l.Subject += fmt.Sprintf(", Run time %s, %s, ExitCode %d", ran, state, exitOf(j))
	default:
		l.Subject += ", Run time " + ran
	}
	l.Subject = strings.Map(func(r rune) rune { // a name must not begin another header
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, l.Subject)
	l.Env = n.environ(word, state, queued, ran, over)
	return l
}

// exitOf is the code that counts for a job: of a cancelled one none.
func exitOf(j *projections.Job) uint32 {
	if j.State == events.JobState_CANCELLED {
		return 0
	}
	return j.ExitCode
}

func digestState(n *JobNews, state string) string {
	if n.Least == 0 && (n.Array.MaxExitCode > 0 || n.Array.MaxExitSignal > 0) {
		return "Mixed"
	}
	return state
}

// environ is what a MailProg finds in its environment about the job.
func (n *JobNews) environ(word, state, queued, ran string, over bool) []string {
	j := n.Job
	spec := j.GetSpec()
	var out []string
	set := func(name string, value any) { out = append(out, fmt.Sprintf("SLURM_%s=%v", name, value)) }
	set("CLUSTER_NAME", n.Cluster)
	set("JOB_ID", j.Id)
	set("JOBID", j.Id)
	set("JOB_NAME", spec.GetName())
	set("JOB_USER", j.GetOwner().GetUser())
	set("JOB_UID", j.GetOwner().GetUid())
	set("JOB_GROUP", j.GetOwner().GetGroup())
	set("JOB_GID", j.GetOwner().GetGid())
	set("JOB_PARTITION", j.Partition)
	set("JOB_STATE", state)
	set("JOB_MAIL_TYPE", word)
	set("JOB_WORK_DIR", spec.GetWorkDir())
	set("JOB_STDIN", orText(spec.GetStdIn(), "/dev/null"))
	set("JOB_RESTART_COUNT", j.Restarts)
	if spec.GetAccount() != "" {
		set("JOB_ACCOUNT", spec.GetAccount())
	}
	nodes := j.Allocation.NodeNames()
	set("JOB_NODELIST", orText(hostlist.Compress(nodes), "(null)"))
	if len(nodes) > 0 {
		set("JOB_NUM_NODES", len(nodes))
		var counts []int
		j.Allocation.Each(func(_ int, _ string, s *events.NodeShare) bool {
			counts = append(counts, events.Words(s.GetCpus()).Count())
			return true
		})
		set("JOB_CPUS_PER_NODE", hostlist.Runs(counts))
	}
	if queued != "" {
		set("JOB_QUEUED_TIME", queued)
	}
	if ran != "" {
		set("JOB_RUN_TIME", ran)
	}
	if over {
		set("JOB_EXIT_CODE", exitOf(j)<<8|j.ExitSignal&0x7f)
		set("JOB_EXIT_CODE2", fmt.Sprintf("%d:%d", exitOf(j), j.ExitSignal))
		set("JOB_DERIVED_EC", exitOf(j))
		most := exitOf(j)
		if n.Array != nil {
			most = n.Array.MaxExitCode
			set("JOB_EXIT_CODE_MIN", n.Least)
		}
		set("JOB_EXIT_CODE_MAX", most)
	}
	if j.HasTask {
		tasks := events.Words(spec.GetArray().GetTasks())
		first, _ := tasks.First()
		last, _ := tasks.Last()
		set("ARRAY_JOB_ID", j.ArrayId)
		set("ARRAY_TASK_ID", j.ArrayTask)
		set("ARRAY_TASK_COUNT", tasks.Count())
		set("ARRAY_TASK_MIN", first)
		set("ARRAY_TASK_MAX", last)
	}
	return out
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// since writes a span in microseconds as [D-]HH:MM:SS.
func since(us int64) string {
	s := us / 1_000_000
	days := ""
	if s >= 86400 {
		days = fmt.Sprintf("%d-", s/86400)
	}
	return fmt.Sprintf("%s%02d:%02d:%02d", days, s/3600%24, s/60%60, s%60)
}

// MailKind is which letter a published state asks for, of those that the job wants; 0: none. States that are ends bad in
// themselves go out as a failure if that is wanted, and as an end otherwise.
func MailKind(state string, wanted uint32) uint32 {
	switch state {
	case "RUNNING":
		return wanted & MailBegin
	case "REQUEUED":
		return wanted & MailRequeue
	case "COMPLETED", "CANCELLED":
		return wanted & MailEnd
	case "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY":
		if wanted&MailFail != 0 {
			return MailFail
		}
		return wanted & MailEnd
	}
	return 0
}
