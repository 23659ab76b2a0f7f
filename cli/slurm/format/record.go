package format

import (
	"cmp"
	"fmt"
	"strings"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/events/tres"
	"stint/projections"
)

// record is KEY=VALUE words, line by line, as scontrol show prints them: the first line at the margin, the others indented by three, or
// all on one line.
type record struct {
	text    []byte
	oneLine bool
	begun   bool
}

// line adds a line of words.
func (r *record) line(format string, args ...any) {
	r.next()
	r.text = fmt.Appendf(r.text, format, args...)
}

// next begins a line.
func (r *record) next() {
	switch {
	case !r.begun:
		r.begun = true
	case r.oneLine:
		r.text = append(r.text, ' ')
	default:
		r.text = append(r.text, "\n   "...)
	}
}

// words adds a line of words that stand as they are.
func (r *record) words(parts ...string) {
	r.next()
	for _, p := range parts {
		r.text = append(r.text, p...)
	}
}

// end is the record with the blank lines behind it.
func (r *record) end() string {
	if r.oneLine {
		return string(r.text) + "\n"
	}
	return string(r.text) + "\n\n"
}

// yes and no of records.
func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// Record is the job as scontrol show job prints it, blank lines behind it included. details counts how often -d was given.
func (j Job) Record(oneLine bool, details int) string {
	return string(j.AppendRecord(nil, oneLine, details))
}

// AppendRecord adds the record to a text.
func (j Job) AppendRecord(to []byte, oneLine bool, details int) []byte {
	r := &record{text: to, oneLine: oneLine}
	s, o, c := j.GetSpec(), j.GetOwner(), j.Context
	head := fmt.Sprintf("JobId=%d", j.GetId())
	if j.GetArrayId() != 0 {
		head += fmt.Sprintf(" ArrayJobId=%d ArrayTaskId=%s", j.GetArrayId(), j.taskID())
		if n := j.GetArrayMaxRunning(); n > 0 {
			head += fmt.Sprintf(" ArrayTaskThrottle=%d", n)
		}
	}
	if j.GetHetId() != 0 {
		head += fmt.Sprintf(" HetJobId=%d HetJobOffset=%d", j.GetHetId(), j.GetHetOffset())
	}
	r.line("%s JobName=%s", head, s.GetName())
	if j.GetHetId() != 0 {
		r.line("HetJobIdSet=%s", j.hetIDs())
	}
	r.line("UserId=%s(%d) GroupId=%s(%d) MCS_label=%s", o.GetUser(), o.GetUid(), o.GetGroup(), o.GetGid(), orNA(s.GetMcsLabel()))
	account := fmt.Sprintf("Priority=%d Nice=%d Account=%s QOS=%s", j.priority(), s.GetNice(), null(s.GetAccount()), null(s.GetQos()))
	if s.GetWckey() != "" && c.WCKeys {
		account += " WCKey=" + s.GetWckey()
	}
	r.words(account)
	long, _ := j.stateWords()
	_, reason := j.reason()
	code, signal := j.exit()
	r.line("JobState=%s Reason=%s Dependency=%s", long, strings.ReplaceAll(reason, " ", "_"), null(j.dependencies()))
	r.line("Requeue=%s Restarts=%d BatchFlag=%s Reboot=%s ExitCode=%d:%d", bit(s.GetRequeue() != events.Choice_CHOICE_NO || s.GetInteractive()), j.GetRestarts(), bit(!s.GetInteractive()), bit(s.GetReboot()), code, signal)
	if details > 0 {
		r.line("DerivedExitCode=0:0")
	}
	timeMin := "N/A"
	if n := s.GetTimeMinS(); n > 0 {
		timeMin = limitText(n, Long)
	}
	r.line("RunTime=%s TimeLimit=%s TimeMin=%s", Long(j.elapsed()), limitText(j.limit(), Long), timeMin)
	r.words("SubmitTime=", c.Clock.Time(j.GetSubmitUs(), "Unknown"), " EligibleTime=", c.Clock.Time(j.eligible(), "Unknown"))
	r.words("AccrueTime=", c.Clock.Time(j.accrue(), "Unknown"))
	if j.GetResizedUs() != 0 {
		r.words("ResizeTime=", c.Clock.Time(j.GetResizedUs(), "None"))
	}
	r.words("StartTime=", c.Clock.Time(j.start(), "Unknown"), " EndTime=", c.Clock.Time(j.end(), "Unknown"), " Deadline=", c.Clock.Time(s.GetDeadlineUs(), "N/A"))
	if cron := s.GetCron(); cron != nil {
		flag := ""
		if j.GetRecurs() {
			flag = "CronJob=Yes "
		}
		r.line("%sCrontabSpec=%q", flag, cron.Text())
	}
	if start := j.start(); start != 0 && !j.pending() && c.Preempts {
		r.line("PreemptEligibleTime=%s PreemptTime=None", c.Clock.Time(start, "None"))
	}
	scheduler, planned := "Main", ""
	if j.pending() {
		planned = j.Outcome.GetNodes()
	}
	switch {
	case planned != "":
		scheduler = "Backfill:*" // it was looked at, and is to be looked at again
	case j.GetBackfilled():
		scheduler = "Backfill"
	}
	r.line("SuspendTime=%s SecsPreSuspend=%d LastSchedEval=%s Scheduler=%s", c.Clock.Time(j.GetSuspendedUs(), "None"), j.GetSuspendedTotalUs()/1e6, c.Clock.Time(j.evaluated(), "Unknown"), scheduler)
	r.line("Partition=%s AllocNode:Sid=%s:%d", j.partition(), orNA(s.GetSubmitHost()), s.GetSubmitSid())
	r.line("ReqNodeList=%s ExcNodeList=%s", null(s.GetNodeList()), null(s.GetExclude()))
	if planned != "" {
		planned = " SchedNodeList=" + planned
	}
	r.line("NodeList=%s%s", j.nodes(), planned)
	if host := j.GetAllocation().FirstNode(); host != "" && !j.pending() {
		r.line("BatchHost=%s", host)
	}
	if s.GetBatchFeatures() != "" {
		r.line("BatchFeatures=%s", s.GetBatchFeatures())
	}
	nodes := u32(j.nodesWanted())
	if most := s.GetMaxNodes(); j.pending() && most > 0 && j.GetRun() == 0 { // of one that ran before, what it had then is told
		nodes = fmt.Sprintf("%d-%d", min(j.nodesWanted(), most), most)
	}
	tasks := u32(numTasks(s, j.allocated()))
	threads := count(s.GetThreadsPerCore())
	if s.GetThreadsPerCore() == 0 && s.GetNomultithread() {
		threads = "1"
	}
	if j.GetStartUs() == 0 && j.GetState().Final() {
		tasks = "N/A"
	}
	r.line("NumNodes=%s NumCPUs=%d NumTasks=%s CPUs/Task=%d ReqB:S:C:T=0:0:%s:%s", nodes, j.cpus(), tasks, max(s.GetCpusPerTask(), 1),
		count(s.GetCoresPerSocket()), threads)
	if c.Release >= 2302 {
		waiting := j
		waiting.Job = &projections.Job{Spec: s}
		r.line("ReqTRES=%s", waiting.tres())
		alloc := "(null)"
		if j.GetAllocation().NodeCount() > 0 && !j.pending() {
			alloc = j.tres().String()
		}
		r.line("AllocTRES=%s", alloc)
	} else {
		r.line("TRES=%s", j.tres())
	}
	r.line("Socks/Node=%s NtasksPerN:B:S:C=%d:0:%s:%s CoreSpec=*", count(s.GetSocketsPerNode()), s.GetTasksPerNode(), count(s.GetTasksPerSocket()), count(s.GetTasksPerCore()))
	if details > 0 {
		j.shares(r)
	}
	mem, perCPU := j.minMemory()
	which := "MinMemoryNode"
	if perCPU {
		which = "MinMemoryCPU"
	}
	r.line("MinCPUsNode=%d %s=%s MinTmpDiskNode=%s", j.minCPUs(), which, tres.Memory(int64(mem), tres.Auto), tres.Memory(int64(s.GetTmpDiskMib()), tres.Auto))
	r.line("Features=%s DelayBoot=%s", null(s.GetConstraint()), delay(s.GetDelayBootS(), Long))
	if s.GetClusterFeatures() != "" {
		r.line("ClusterFeatures=%s", s.GetClusterFeatures())
	}
	if s.GetPrefer() != "" {
		r.line("Prefer=%s", s.GetPrefer())
	}
	if s.GetReservation() != "" {
		r.line("Reservation=%s", s.GetReservation())
	}
	licenses := null(s.GetLicenses())
	if c.Release >= 2505 {
		licenses += " LicensesAlloc=" + null(events.FormatLicenses(j.HeldLicenses()))
	}
	r.line("OverSubscribe=%s Contiguous=%s Licenses=%s Network=%s", j.oversubscribe(), bit(s.GetContiguous()), licenses, null(s.GetNetwork()))
	r.words("Command=", j.command())
	r.words("WorkDir=", s.GetWorkDir())
	if s.GetAdminComment() != "" {
		r.line("AdminComment=%s ", s.GetAdminComment())
	}
	if s.GetComment() != "" {
		r.line("Comment=%s ", s.GetComment())
	}
	out := j.stdOut()
	errors := out
	if s.GetStdErr() != "" {
		errors = j.stdErr()
	}
	r.words("StdErr=", errors)
	r.words("StdIn=", j.stdIn())
	r.words("StdOut=", out)
	if n, wait := j.switches(); n != "" {
		r.line("Switches=%s@%s", n, Long(wait))
	}
	if s.GetBurstBuffer() != "" {
		r.line("BurstBuffer=%s", s.GetBurstBuffer())
	}
	if s.GetCpuFreq() != "" {
		r.line("%s", cpuFrequency(s.GetCpuFreq()))
	}
	if c.Release < 2405 {
		r.words("Power=", s.GetPower())
	}
	if flags := j.flags(); len(flags) > 0 {
		if c.Release < 2302 {
			flags = []string{strings.Join(flags, "")} // as that release has it: nothing between them
		}
		for _, f := range flags {
			r.words(f)
		}
	}
	if n := s.GetCpusPerGpu(); n > 0 {
		r.line("CpusPerTres=%s", perTres(uint64(n), s.GetDefaultCpusPerGpu()))
	}
	if n := s.GetMemPerGpuMib(); n > 0 {
		r.line("MemPerTres=%s", perTres(n, s.GetDefaultMemPerGpu()))
	}
	if s.GetTresBind() != "" {
		r.line("TresBind=%s", s.GetTresBind())
	}
	if s.GetTresFreq() != "" {
		r.line("TresFreq=%s", s.GetTresFreq())
	}
	for _, per := range []struct {
		name  string
		scope events.Scope
	}{{"TresPerJob", events.Scope_PER_JOB}, {"TresPerNode", events.Scope_PER_NODE}, {"TresPerSocket", events.Scope_PER_SOCKET}, {"TresPerTask", events.Scope_PER_TASK}} {
		if t := j.tresPer(per.scope); t != "" {
			r.line("%s=%s", per.name, t)
		}
	}
	r.mail(j)
	if n := s.GetTasksPerGpu(); n > 0 {
		r.line("NtasksPerTRES=%d", n)
	}
	if oneLine {
		return append(r.text, " \n"...)
	}
	return append(r.text, "\n   \n\n"...)
}

// flags are words about how the job is dealt with.
func (j Job) flags() []string {
	s := j.GetSpec()
	var out []string
	if word := bindWord(s.GetBindGres()); word != "" {
		out = append(out, "GresEnforceBind="+word)
	}
	switch {
	case s.GetKillOnInvalidDependency():
		out = append(out, "KillOInInvalidDependent=Yes") // as it is spelled in Slurm
	case s.GetKeepOnInvalidDependency():
		out = append(out, "KillOInInvalidDependent=No")
	}
	if s.GetSpreadJob() {
		out = append(out, "SpreadJob=Yes")
	}
	return out
}

// longestSwitchWait is how long a job waits for its number of switches at most, in seconds (SchedulerParameters=max_switch_wait).
const longestSwitchWait = 300

// switches are the number of switches asked for, empty if none, and the seconds that the job waits for it.
func (j Job) switches() (n string, wait int64) {
	n, text, timed := strings.Cut(j.GetSpec().GetSwitches(), "@")
	wait = longestSwitchWait
	if seconds, err := slurm.ParseLimit(text); timed && err == nil {
		wait = min(wait, int64(seconds))
	}
	return n, wait
}

// perTres is so much for each GPU, as it is written where it was asked for and where it is the site's own.
func perTres(n uint64, site bool) string {
	if site {
		return fmt.Sprintf("gpu:%d", n)
	}
	return fmt.Sprintf("gres:gpu:%d", n)
}

// delay is a time that may be without end; nothing said is none.
func delay(seconds uint32, print func(int64) string) string {
	if seconds == 0 {
		return print(0)
	}
	return limitText(seconds, print)
}

// cpuFrequency is a frequency as records show it: least, most, governor, as far as they are told.
func cpuFrequency(told string) string {
	least, rest, ranged := strings.Cut(told, "-")
	most, governor, _ := strings.Cut(rest, ":")
	switch {
	case !ranged && slurm.IsGovernor(told):
		return "Governor=" + told
	case !ranged:
		return "CPU_max_freq=" + told
	case governor == "":
		return "CPU_min_freq=" + least + " CPU_max_freq=" + most
	}
	return "CPU_min_freq=" + least + " CPU_max_freq=" + most + " Governor=" + governor
}

// shares are the lines of -d: what the job has of each node.
func (j Job) shares(r *record) {
	a := j.GetAllocation()
	if j.pending() || a.NodeCount() == 0 {
		return
	}
	var all []string
	for _, g := range a.Gres() {
		all = append(all, gresWord(g.Name, g.Type, g.Count))
	}
	r.line("JOB_GRES=%s", null(strings.Join(all, ",")))
	// Nodes with the same of everything are one line, as long as nothing else comes between them.
	var nodes []string
	var last string
	flush := func() {
		if len(nodes) > 0 {
			r.line("  Nodes=%s %s", hostlist.Compress(nodes), last)
		}
		nodes = nil
	}
	for _, sh := range a.GetShares() {
		var gres []string
		for _, g := range sh.GetGres() {
			ids := idset.FromWords(g.GetIds())
			gres = append(gres, fmt.Sprintf("%s(IDX:%s)", gresWord(g.GetName(), g.GetType(), uint64(ids.Len())), ids))
		}
		here := strings.Join(gres, ",")
		if here == "" && len(all) > 0 {
			here = "(null)"
		}
		now := fmt.Sprintf("CPU_IDs=%s Mem=%d GRES=%s", idset.FromWords(sh.GetCpus()), sh.GetMemoryMib(), here)
		if now != last {
			flush()
		}
		nodes, last = append(nodes, sh.GetNodes()...), now
	}
	flush()
}

func bindWord(c events.Choice) string {
	switch c {
	case events.Choice_CHOICE_YES:
		return "Yes"
	case events.Choice_CHOICE_NO:
		return "No"
	}
	return ""
}

func gresWord(name, kind string, n uint64) string {
	if kind != "" {
		name += ":" + kind
	}
	return fmt.Sprintf("%s:%d", name, n)
}

// partitionsOf names a node's partitions that the caller is shown.
func (c *NodeContext) partitionsOf(n *projections.Node) []string {
	if c.Config == nil {
		return n.GetPartitions()
	}
	hidden := map[string]bool{}
	for _, p := range c.Config.GetPartitions() {
		hidden[p.GetName()] = !c.sees(p)
	}
	var seen []string
	for _, name := range n.GetPartitions() {
		if !hidden[name] {
			seen = append(seen, name)
		}
	}
	return seen
}

// NodeRecord is a node as scontrol show node prints it, blank lines behind it included.
func NodeRecord(n *projections.Node, c *NodeContext, oneLine bool, details int) string {
	r := &record{oneLine: oneLine}
	sockets, cores, threads := shape(n)
	d, inv := n.GetDef(), n.GetInventory()
	arch := ""
	if inv.GetArch() != "" {
		arch = " Arch=" + inv.GetArch()
	}
	r.line("NodeName=%s%s CoresPerSocket=%d ", n.GetName(), arch, cores)
	used := events.Words(n.GetCpusUsed()).Count()
	r.line("CPUAlloc=%d CPUEfctv=%d CPUTot=%d CPULoad=%s", used, effectiveCPUs(n), nodeCPUs(n), c.load(n))
	r.line("AvailableFeatures=%s", nodeFeatures(n))
	r.line("ActiveFeatures=%s", activeFeatures(n))
	r.line("Gres=%s", nodeGres(n))
	if details > 0 {
		r.line("GresDrain=N/A")
		r.line("GresUsed=%s", nodeGresUsed(n))
	}
	where := ""
	if p := port(n); p != slurmdPort {
		where = fmt.Sprintf(" Port=%d", p)
	}
	r.line("NodeAddr=%s NodeHostName=%s%s Version=%s", nodeAddr(n), nodeHost(n), where, c.Release.Number())
	if inv.GetOs() != "" {
		r.line("OS=%s ", inv.GetOs())
	}
	r.line("RealMemory=%d AllocMem=%d FreeMem=%s Sockets=%d Boards=%d", nodeMemory(n), n.GetMemoryUsedMib(), c.free(n), sockets, max(d.GetBoards(), 1))
	if kept := keptForSystem(n); kept != "" {
		r.line("%s", kept)
	}
	r.line("State=%s ThreadsPerCore=%d TmpDisk=%d Weight=%d Owner=N/A MCS_label=N/A", StateOf(n).Upper, threads, nodeDisk(n), max(d.GetWeight(), 1))
	if seen := c.partitionsOf(n); len(seen) > 0 {
		r.line("Partitions=%s ", strings.Join(seen, ","))
	}
	r.line("BootTime=%s SlurmdStartTime=%s", c.Clock.Time(max(n.GetBootUs(), inv.GetBootUs()), "None"), c.Clock.Time(n.GetExecutorStartUs(), "None"))
	busy := fmt.Sprintf("LastBusyTime=%s", c.Clock.Time(max(n.GetBusyUs(), n.GetExecutorStartUs()), "Unknown"))
	if c.Release >= 2302 {
		busy += " ResumeAfterTime=None"
	}
	r.line("%s", busy)
	r.line("CfgTRES=%s", nodeTres(n, false))
	r.line("AllocTRES=%s", nodeTres(n, true))
	if c.Release < 2405 {
		r.line("CapWatts=n/a")
	}
	r.line("CurrentWatts=0 AveWatts=0")
	if c.Release < 2405 {
		r.line("ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s")
	}
	if n.GetReason() != "" {
		r.line("Reason=%s [%s@%s]", n.GetReason(), c.user(n.GetReasonUid()), c.Clock.Time(n.GetReasonUs(), "Unknown"))
	}
	if n.GetComment() != "" {
		r.line("Comment=%s", n.GetComment())
	}
	return r.end()
}

// PartitionRecord is a partition as scontrol show partition prints it, blank lines behind it included. nodes are those of the
// cluster.
func PartitionRecord(p *events.PartitionDef, nodes []*projections.Node, c *NodeContext, oneLine bool) string {
	r := &record{oneLine: oneLine}
	r.line("PartitionName=%s", p.GetName())
	r.line("AllowGroups=%s %s AllowQos=%s", allUpper(p.GetAllowGroups()), allowDeny("Accounts", p.GetAllowAccounts(), p.GetDenyAccounts()), allUpper(p.GetAllowQos()))
	alternate := ""
	if a := p.GetAlternate(); a != "" {
		alternate = " Alternate=" + a
	}
	r.line("AllocNodes=%s%s Default=%s QoS=%s", cmp.Or(p.GetAllocNodes(), "ALL"), alternate, yesNo(p.GetDefault()), orNA(p.GetQos()))
	defaultTime := "NONE"
	if p.GetDefaultTimeS() != 0 {
		defaultTime = limitText(p.GetDefaultTimeS(), Long)
	}
	exclusive := "ExclusiveUser=" + yesNo(p.GetExclusiveUser())
	if c.Release >= 2405 {
		exclusive += " ExclusiveTopo=NO"
	}
	r.line("DefaultTime=%s DisableRootJobs=%s %s GraceTime=%d Hidden=%s", defaultTime, yesNo(p.GetDisableRootJobs()), exclusive, p.GetGraceS(), yesNo(p.GetHidden()))
	perNode := "UNLIMITED"
	if n := p.GetMaxCpusPerNode(); n > 0 {
		perNode = u32(n)
	}
	limits := fmt.Sprintf("MaxNodes=%s MaxTime=%s MinNodes=%d LLN=%s MaxCPUsPerNode=%s", unlimited(p.GetMaxNodes()), limitText(p.GetMaxTimeS(), Long), p.GetMinNodes(), yesNo(p.GetLln()), perNode)
	if c.Release >= 2302 {
		limits += " MaxCPUsPerSocket=UNLIMITED"
	}
	r.line("%s", limits)
	own := members(p, nodes)
	names := make([]string, len(own))
	var sum tres.List
	cpus := 0
	for i, n := range own {
		names[i] = n.GetName()
		cpus += nodeCPUs(n)
		sum = sum.Plus(nodeTres(n, false))
	}
	r.line("Nodes=%s", null(hostlist.CompressSorted(names)))
	r.line("PriorityJobFactor=%d PriorityTier=%d RootOnly=%s ReqResv=%s OverSubscribe=%s", p.GetPriorityJobFactor(), p.GetPriorityTier(), yesNo(p.GetRootOnly()), yesNo(p.GetRequireReservation()), shared(p))
	over := "NONE"
	if p.GetHasOverTimeLimit() {
		over = unlimited(p.GetOverTimeLimitS())
		if p.GetOverTimeLimitS() != events.Unlimited {
			over = u32(p.GetOverTimeLimitS() / 60)
		}
	}
	r.line("OverTimeLimit=%s PreemptMode=%s", over, c.preemptMode(p))
	state := [...]string{"UP", "DOWN", "DRAIN", "INACTIVE"}[min(int(p.GetState()), 3)]
	r.line("State=%s TotalCPUs=%d TotalNodes=%d SelectTypeParameters=NONE", state, cpus, len(own))
	r.line("JobDefaults=%s", null(jobDefaults(p)))
	r.line("%s %s", memoryLimit("DefMemPer", p.GetDefMemPerCpuMib(), p.GetDefMemPerNodeMib()), memoryLimit("MaxMemPer", p.GetMaxMemPerCpuMib(), p.GetMaxMemPerNodeMib()))
	if len(own) > 0 {
		sum.Set("node", int64(len(own)))
		sum.Set("billing", c.Config.Bill(p, sum))
	}
	r.line("TRES=%s", null(sum.String()))
	if w := p.GetBillingWeights(); w != "" {
		r.line("TRESBillingWeights=%s", w)
	}
	return r.end()
}

// jobDefaults are the CPUs and the memory that jobs of a partition get for each GPU without saying so.
func jobDefaults(p *events.PartitionDef) string {
	var terms []string
	if n := p.GetDefCpusPerGpu(); n > 0 {
		terms = append(terms, "DefCpuPerGPU="+u32(n))
	}
	if n := p.GetDefMemPerGpuMib(); n > 0 {
		terms = append(terms, fmt.Sprintf("DefMemPerGPU=%d", n))
	}
	return strings.Join(terms, ",")
}

func allUpper(list []string) string {
	if len(list) == 0 {
		return "ALL"
	}
	return strings.Join(list, ",")
}

func allowDeny(what string, allow, deny []string) string {
	if len(allow) == 0 && len(deny) > 0 {
		return "Deny" + what + "=" + strings.Join(deny, ",")
	}
	return "Allow" + what + "=" + allUpper(allow)
}

func unlimited(n uint32) string {
	if n == events.Unlimited {
		return "UNLIMITED"
	}
	return u32(n)
}

func memoryLimit(what string, perCPU, perNode uint64) string {
	switch {
	case perCPU > 0:
		return fmt.Sprintf("%sCPU=%d", what, perCPU)
	case perNode > 0:
		return fmt.Sprintf("%sNode=%d", what, perNode)
	}
	return what + "Node=UNLIMITED"
}

// mail adds the line about mail.
func (r *record) mail(j Job) {
	s := j.GetSpec()
	if s.GetMailTypes() == 0 {
		return
	}
	user := s.GetMailUser()
	if user == "" {
		user = j.GetOwner().GetUser()
	}
	r.line("MailUser=%s MailType=%s", user, slurm.FormatMail(s.GetMailTypes()))
}
