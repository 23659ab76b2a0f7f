package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/projections"
)

// Calls is how often one kind of request came, or one user asked.
type Calls struct {
	Name    string
	Number  uint32
	Count   uint64
	TotalUs uint64
	Refused uint64 // beyond what one user may ask for
}

func (c Calls) average() uint64 { return c.TotalUs / max(c.Count, 1) }

// Diagnosis is what sdiag shows: what the leader and this host's agent counted.
type Diagnosis struct {
	*projections.AnswerStats
	NowUs        int64
	Release      slurm.Release
	Serving      uint32 // connections to the agent that are open
	Waiting      uint32 // acts that wait to be appended
	ClockUs      uint32 // what a thousand readings of the clock take
	Kinds, Users []Calls
}

// Sort orders the calls: by their numbers (i), by the time they took in all (t) or on average (T), else by how often they came.
func (d *Diagnosis) Sort(order byte) {
	by := func(a, b Calls) int {
		switch order {
		case 'i':
			return cmp.Compare(a.Number, b.Number)
		case 't':
			return cmp.Compare(b.TotalUs, a.TotalUs)
		case 'T':
			return cmp.Compare(b.average(), a.average())
		}
		return cmp.Compare(b.Count, a.Count)
	}
	slices.SortStableFunc(d.Kinds, by)
	slices.SortStableFunc(d.Users, by)
}

// sdiagTime is a time as sdiag prints it.
func sdiagTime(us int64) string {
	t := time.UnixMicro(us)
	return fmt.Sprintf("%s (%d)", t.Format("Mon Jan _2 15:04:05 2006"), t.Unix())
}

const ruler = "*******************************************************\n"

// Text is the diagnosis for people, and for the exporters that match its lines.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p, f := d.GetPasses(), d.GetBackfill()
	b.WriteString(ruler)
	line("sdiag output at %s", sdiagTime(d.NowUs))
	line("Data since      %s", sdiagTime(d.GetSinceUs()))
	b.WriteString(ruler)
	line("Server thread count:  %d", d.Serving)
	line("Agent queue size:     %d", d.Waiting)
	line("Agent count:          0")
	line("Agent thread count:   0")
	line("DBD Agent queue size: 0")
	line("")
	line("Jobs submitted: %d\nJobs started:   %d\nJobs completed: %d\nJobs canceled:  %d\nJobs failed:    %d", d.GetSubmitted(), d.GetStarted(), d.GetCompleted(), d.GetCanceled(), d.GetFailed())
	line("")
	line("Job states ts:  %s\nJobs pending:   %d\nJobs running:   %d", sdiagTime(d.NowUs), d.GetPending(), d.GetRunning())
	line("")
	line("Main schedule statistics (microseconds):")
	line("\tLast cycle:   %d\n\tMax cycle:    %d\n\tTotal cycles: %d", p.GetLast(), p.GetMost(), p.GetCount())
	if n := p.GetCount(); n > 0 {
		line("\tMean cycle:   %d\n\tMean depth cycle:  %d", p.GetSum()/n, p.GetDepthSum()/n)
	}
	if minutes := uint64((d.NowUs - d.GetSinceUs()) / 60e6); minutes > 0 {
		line("\tCycles per minute: %d", p.GetCount()/minutes)
	}
	line("\tLast queue length: %d", p.GetQueue())
	later := d.Release > slurm.Release2205
	if later {
		line("\nMain scheduler exit:\n\tEnd of job queue:%2d\n\tHit default_queue_depth: 0\n\tHit sched_max_job_start: 0\n\tBlocked on licenses: 0\n\tHit max_rpc_cnt: 0\n\tTimeout (max_sched_time): 0", p.GetCount())
	}
	line("")
	line("Backfilling stats")
	line("\tTotal backfilled jobs (since last slurm start): %d", d.GetBackfilled())
	line("\tTotal backfilled jobs (since last stats cycle start): %d", d.GetBackfilledSince())
	line("\tTotal backfilled heterogeneous job components: 0")
	line("\tTotal cycles: %d", f.GetCount())
	line("\tLast cycle when: %s", sdiagTime(f.GetLastUs()))
	line("\tLast cycle: %d\n\tMax cycle:  %d", f.GetLast(), f.GetMost())
	if n := f.GetCount(); n > 0 {
		line("\tMean cycle: %d", f.GetSum()/n)
	}
	line("\tLast depth cycle: %d\n\tLast depth cycle (try sched): %d", f.GetDepth(), f.GetDepth())
	if n := f.GetCount(); n > 0 {
		line("\tDepth Mean: %d\n\tDepth Mean (try depth): %d", f.GetDepthSum()/n, f.GetDepthSum()/n)
	}
	line("\tLast queue length: %d", f.GetQueue())
	if n := f.GetCount(); n > 0 {
		line("\tQueue length mean: %d", f.GetQueueSum()/n)
	}
	line("\tLast table size: %d", d.GetHeld())
	if f.GetCount() > 0 {
		line("\tMean table size: %d", d.GetHeld())
	}
	if later {
		line("\nBackfill exit\n\tEnd of job queue:%2d\n\tHit bf_max_job_start: 0\n\tHit bf_max_job_test: 0\n\tSystem state changed: 0\n\tHit table size limit (bf_node_space_size): 0\n\tTimeout (bf_max_time): 0", f.GetCount())
	}
	line("")
	line("Latency for 1000 calls to gettimeofday(): %d microseconds", d.ClockUs)
	line("\nRemote Procedure Call statistics by message type")
	for _, c := range d.Kinds {
		line("\t%-40s(%5d) count:%-6d ave_time:%-6d total_time:%d", c.Name, c.Number, c.Count, c.average(), c.TotalUs)
	}
	line("\nRemote Procedure Call statistics by user")
	for _, c := range d.Users {
		line("\t%-16s(%8d) count:%-6d ave_time:%-6d total_time:%d", c.Name, c.Number, c.Count, c.average(), c.TotalUs)
	}
	line("\nPending RPC statistics\n\tNo pending RPCs")
	d.own(line)
	return b.String()
}

// own is what Slurm has no line for, behind all of its lines: no program that matches these finds one of them here.
func (d *Diagnosis) own(line func(format string, args ...any)) {
	p, t := d.GetPasses(), d.GetTerm()
	line("\nStint statistics")
	line("\tLeader: %s", cmp.Or(d.GetLeader(), "(none)"))
	if t.GetSeq() > 0 {
		line("\tTerm: since %s, at sequence %d of the log", sdiagTime(t.GetBegunUs()), t.GetSeq())
		line("\tLast word of the leader: %s", sdiagTime(t.GetNowUs()))
	}
	line("\tLog: %d", d.GetLogSeq())
	line("\tPasses (microseconds): last %d, mean %d, 99%% within %d, most %d", p.GetLast(), p.GetSum()/max(p.GetCount(), 1), p.GetP99(), p.GetMost())
	if s := (d.NowUs - d.GetSinceUs()) / 1e6; s > 0 {
		line("\tPasses a second: %.2f", float64(p.GetCount())/float64(s))
	}
	line("\tJobs that waited as the last pass began: %d", p.GetQueue())
	line("\tActs without a verdict: %d", d.GetInbox())
	line("\tJob states not yet published: %d", d.GetFeedBacklog())
	line("\nFollowers of the log")
	for _, f := range d.GetFollowers() {
		name := f.GetName()
		switch f.GetKind() {
		case "agent":
			line("\t%-10s %-24s at %d%s", f.GetKind(), name, f.GetSeq(), silent(f, 25))
			continue
		case "executor":
			name = fmt.Sprintf("%s (the last of %d)", name, f.GetCount())
		}
		behind := ""
		if f.GetBehind() > 0 {
			behind = fmt.Sprintf(" for %.1f s", float64(f.GetBehindUs())/1e6)
		}
		line("\t%-10s %-24s at %d, %d behind%s%s", f.GetKind(), name, f.GetSeq(), f.GetBehind(), behind, silent(f, 12))
	}
	line("\nVoid events")
	if len(d.GetVoids()) == 0 {
		line("\tNo void events")
	}
	for _, v := range d.GetVoids() {
		line("\t%s: count:%d last_seq:%d", v.GetWhy(), v.GetCount(), v.GetLastSeq())
	}
}

// silent says for how long a follower has said nothing, if that is longer than it ought to be.
func silent(f *projections.Follower, most int64) string {
	if s := f.GetSilentUs() / 1e6; s > most {
		return fmt.Sprintf(", silent for %d s", s)
	}
	return ""
}

// JSON is the diagnosis for programs.
func (d *Diagnosis) JSON() any {
	p, f := d.GetPasses(), d.GetBackfill()
	at := func(us int64) any { return number(us / 1e6) }
	mean := func(sum, n uint64) uint64 { return sum / max(n, 1) }
	kinds, users := list{}, list{}
	for _, c := range d.Kinds {
		kinds = append(kinds, object{{"message_type", c.Name}, {"type_id", c.Number}, {"count", c.Count}, {"queued", 0}, {"dropped", c.Refused}, {"cycle_last", 0}, {"cycle_max", 0}, {"total_time", c.TotalUs}, {"average_time", number(float64(c.average()))}})
	}
	for _, c := range d.Users {
		users = append(users, object{{"user", c.Name}, {"user_id", c.Number}, {"count", c.Count}, {"total_time", c.TotalUs}, {"average_time", number(float64(c.average()))}})
	}
	perMinute := uint64(0)
	if minutes := uint64((d.NowUs - d.GetSinceUs()) / 60e6); minutes > 0 {
		perMinute = p.GetCount() / minutes
	}
	followers, voids := list{}, list{}
	for _, f := range d.GetFollowers() {
		followers = append(followers, object{{"kind", f.GetKind()}, {"name", f.GetName()}, {"version", f.GetVersion()}, {"seq", f.GetSeq()}, {"behind", f.GetBehind()}, {"behind_us", f.GetBehindUs()}, {"silent_us", f.GetSilentUs()}, {"count", max(f.GetCount(), 1)}})
	}
	for _, v := range d.GetVoids() {
		voids = append(voids, object{{"why", v.GetWhy()}, {"count", v.GetCount()}, {"last_seq", v.GetLastSeq()}})
	}
	own := object{{"leader", d.GetLeader()}, {"term_seq", d.GetTerm().GetSeq()}, {"term_begin", at(d.GetTerm().GetBegunUs())}, {"last_word", at(d.GetTerm().GetNowUs())}, {"log_seq", d.GetLogSeq()}, {"seq", d.GetSeq()},
		{"pass_p99", p.GetP99()}, {"inbox", d.GetInbox()}, {"feed_backlog", d.GetFeedBacklog()}, {"followers", followers}, {"voids", voids}}
	return object{
		{"parts_packed", 1}, {"req_time", at(d.NowUs)}, {"req_time_start", at(d.GetSinceUs())}, {"server_thread_count", d.Serving}, {"agent_queue_size", d.Waiting}, {"agent_count", 0},
		{"agent_thread_count", 0}, {"dbd_agent_queue_size", 0}, {"gettimeofday_latency", d.ClockUs},
		{"schedule_cycle_max", p.GetMost()}, {"schedule_cycle_last", p.GetLast()}, {"schedule_cycle_sum", p.GetSum()}, {"schedule_cycle_total", p.GetCount()}, {"schedule_cycle_mean", mean(p.GetSum(), p.GetCount())},
		{"schedule_cycle_mean_depth", mean(p.GetDepthSum(), p.GetCount())}, {"schedule_cycle_per_minute", perMinute}, {"schedule_cycle_depth", p.GetDepthSum()},
		{"schedule_exit", object{{"end_job_queue", p.GetCount()}, {"default_queue_depth", 0}, {"max_job_start", 0}, {"max_rpc_cnt", 0}, {"max_sched_time", 0}, {"licenses", 0}}},
		{"schedule_queue_length", p.GetQueue()}, {"jobs_submitted", d.GetSubmitted()}, {"jobs_started", d.GetStarted()}, {"jobs_completed", d.GetCompleted()}, {"jobs_canceled", d.GetCanceled()}, {"jobs_failed", d.GetFailed()},
		{"jobs_pending", d.GetPending()}, {"jobs_running", d.GetRunning()}, {"job_states_ts", at(d.NowUs)},
		{"bf_backfilled_jobs", d.GetBackfilled()}, {"bf_last_backfilled_jobs", d.GetBackfilledSince()}, {"bf_backfilled_het_jobs", 0}, {"bf_cycle_counter", f.GetCount()}, {"bf_cycle_mean", mean(f.GetSum(), f.GetCount())},
		{"bf_depth_mean", mean(f.GetDepthSum(), f.GetCount())}, {"bf_depth_mean_try", mean(f.GetDepthSum(), f.GetCount())}, {"bf_cycle_sum", f.GetSum()}, {"bf_cycle_last", f.GetLast()}, {"bf_cycle_max", f.GetMost()},
		{"bf_exit", object{{"end_job_queue", f.GetCount()}, {"bf_max_job_start", 0}, {"bf_max_job_test", 0}, {"bf_max_time", 0}, {"bf_node_space_size", 0}, {"state_changed", 0}}},
		{"bf_last_depth", f.GetDepth()}, {"bf_last_depth_try", f.GetDepth()}, {"bf_depth_sum", f.GetDepthSum()}, {"bf_depth_try_sum", f.GetDepthSum()}, {"bf_queue_len", f.GetQueue()}, {"bf_queue_len_mean", mean(f.GetQueueSum(), f.GetCount())},
		{"bf_queue_len_sum", f.GetQueueSum()}, {"bf_table_size", d.GetHeld()}, {"bf_table_size_sum", d.GetHeld()}, {"bf_table_size_mean", d.GetHeld()}, {"bf_when_last_cycle", at(f.GetLastUs())}, {"bf_active", false},
		{"rpcs_by_message_type", kinds}, {"rpcs_by_user", users}, {"pending_rpcs", list{}}, {"pending_rpcs_by_hostlist", list{}},
		{"stint", own},
	}
}
