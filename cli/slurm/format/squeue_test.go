package format

import (
	"strings"
	"testing"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		panic(err)
	}
	return t
}

func us(s string) int64 { return at(s).UnixMicro() }

func testContext(r slurm.Release) *Context {
	return &Context{Clock: Clock{Now: at("2026-11-30T13:54:15")}, Release: r, Cluster: "oracle", BitstrLen: DefaultBitstrLen, Preempts: true, Limits: true, WCKeys: true}
}

func owner(name string, uid uint32) *events.Owner {
	return &events.Owner{Uid: uid, Gid: uid, User: name, Group: name}
}

func share(memory uint64, tasks uint32, cpus []uint32, nodes ...string) *events.NodeShare {
	return &events.NodeShare{Nodes: nodes, Cpus: events.WordsOf(cpus...), MemoryMib: memory, Tasks: tasks}
}

// testQueue is the state of the cluster that the real commands were recorded on.
func testQueue() []*projections.JobView {
	spec := func(name, account string, change func(*events.JobSpec)) *events.JobSpec {
		s := &events.JobSpec{Name: name, Account: account, Partition: "compute", Qos: "normal", MemPerCpuMib: 100, TimeLimitS: 3600, WorkDir: "/users/alice", SubmitHost: "localhost"}
		if change != nil {
			change(s)
		}
		return s
	}
	alice, bob, carol := owner("alice", 2001), owner("bob", 2002), owner("carol", 2003)
	started := func(j *projections.Job) *projections.Job {
		j.State, j.StartUs, j.EligibleUs, j.SubmitUs = events.JobState_RUNNING, us("2026-11-30T13:53:42"), us("2026-11-30T13:53:41"), us("2026-11-30T13:53:41")
		j.AccrueUs, j.Run, j.PlacedUs = j.EligibleUs, 1, j.StartUs
		return j
	}
	waits := func(j *projections.Job) *projections.Job {
		j.SubmitUs = us("2026-11-30T13:53:47")
		return j
	}
	gpu := share(100, 1, []uint32{0}, "n3")
	gpu.Gres = []*events.GresShare{{Name: "gpu", Type: "a100", Ids: events.WordsOf(0, 1)}}
	views := []*projections.JobView{
		{Job: started(&projections.Job{Id: 2, Owner: alice, Priority: 600, Spec: spec("run1", "ml-team", func(s *events.JobSpec) {
			s.Tasks, s.CpusPerTask, s.MemPerNodeMib, s.MemPerCpuMib, s.TimeLimitS = 2, 2, 500, 0, 1800
		}), Allocation: &events.Allocation{Shares: []*events.NodeShare{share(500, 2, []uint32{0, 1, 2, 3}, "n2")}}})},
		{Job: started(&projections.Job{Id: 3, Owner: alice, Priority: 797, Spec: spec("gpujob", "ml-team", func(s *events.JobSpec) {
			s.Partition, s.TimeLimitS, s.Gres, s.Tasks = "gpu", 1200, []*events.Gres{{Name: "gpu", Type: "a100", Count: 2}}, 1
		}), Allocation: &events.Allocation{Shares: []*events.NodeShare{gpu}}})},
		{Job: started(&projections.Job{Id: 4, Owner: alice, Priority: 725, Spec: spec("multi", "ml-team", func(s *events.JobSpec) {
			s.MinNodes, s.MaxNodes, s.TasksPerNode, s.Tasks, s.Comment, s.Command = 2, 2, 2, 4, "hello", "/users/alice/job.sh"
		}), Allocation: &events.Allocation{Shares: []*events.NodeShare{share(200, 2, []uint32{4, 5}, "n1"), share(200, 2, []uint32{0, 1}, "n2")}}})},
		{Job: waits(&projections.Job{Id: 9, Owner: alice, Priority: 975, EligibleUs: us("2026-11-30T13:53:47"), AccrueUs: us("2026-11-30T13:53:47"), Spec: spec("big", "ml-team", func(s *events.JobSpec) {
			s.MinNodes, s.MaxNodes, s.Exclusive, s.TimeLimitS = 4, 4, events.Exclusive_EXCLUSIVE_NODE, 12*3600
		})}), Outcome: &projections.Outcome{Reason: events.Reason_RESOURCES}},
		{Job: waits(&projections.Job{Id: 10, Owner: alice, Priority: 543, Spec: spec("dep", "ml-team", nil), Dependencies: []*projections.DependencyState{
			{Dependency: &events.Dependency{Kind: events.DependencyKind_AFTER_OK, Job: 2}}}}), Outcome: &projections.Outcome{Reason: events.Reason_DEPENDENCY}},
		{Job: waits(&projections.Job{Id: 11, Owner: alice, Spec: spec("held", "ml-team", nil), Hold: events.HoldKind_HELD_USER, Reason: events.Reason_JOB_HELD_USER})},
		{Job: waits(&projections.Job{Id: 12, Owner: alice, Priority: 543, BeginUs: us("2030-01-01T00:00:00"), EligibleUs: us("2030-01-01T00:00:00"), Spec: spec("later", "ml-team", nil)}), Outcome: &projections.Outcome{Reason: events.Reason_BEGIN_TIME}},
		{Job: waits(&projections.Job{Id: 14, Owner: carol, Priority: 888, EligibleUs: us("2026-11-30T13:53:47"), Spec: spec("a_very_long_job_name_that_is_truncated", "physics", func(s *events.JobSpec) {
			s.MinNodes, s.MaxNodes, s.Tasks = 3, 3, 6
		})}), Outcome: &projections.Outcome{Reason: events.Reason_PRIORITY, StartUs: us("2026-11-30T13:58:42"), Nodes: "n[1-3]"}},
		{Job: waits(&projections.Job{Id: 6, ArrayId: 6, ArrayMaxRunning: 2, Pending: events.WordsOf(3, 4, 5, 6), Owner: bob, Priority: 543, Spec: spec("arr", "platform-team", func(s *events.JobSpec) { s.TimeLimitS = 300; s.WorkDir = "/users/bob" })}),
			Outcome: &projections.Outcome{Reason: events.Reason_JOB_ARRAY_TASK_LIMIT}},
		{Job: started(&projections.Job{Id: 7, ArrayId: 6, ArrayTask: 1, HasTask: true, ArrayMaxRunning: 2, Owner: bob, Priority: 543, Spec: spec("arr", "platform-team", func(s *events.JobSpec) { s.TimeLimitS = 300; s.WorkDir = "/users/bob" }),
			Allocation: &events.Allocation{Shares: []*events.NodeShare{share(100, 1, []uint32{6}, "n1")}}})},
	}
	return views
}

func row(t *testing.T, rows []Job, id uint32) Job {
	for _, r := range rows {
		if r.GetId() == id {
			return r
		}
	}
	t.Fatalf("no job %d", id)
	return Job{}
}

// Lines as the real squeue printed them for the same jobs.
func TestSqueueLines(t *testing.T) {
	rows := Jobs(testQueue(), testContext(slurm.Release2205), false)
	for _, c := range []struct {
		format string
		job    uint32
		want   string
	}{
		{SqueueFormat, 0, "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"},
		{SqueueFormat, 14, "                14   compute a_very_l    carol PD       0:00      3 (Priority)"},
		{SqueueFormat, 12, "                12   compute    later    alice PD       0:00      1 (BeginTime)"},
		{SqueueFormat, 6, "         6_[3-6%2]   compute      arr      bob PD       0:00      1 (JobArrayTaskLimit)"},
		{SqueueFormat, 7, "               6_1   compute      arr      bob  R       0:33      1 n1"},
		{SqueueFormat, 4, "                 4   compute    multi    alice  R       0:33      2 n[1-2]"},
		{SqueueFormat, 11, "                11   compute     held    alice PD       0:00      1 (JobHeldUser)"},
		{SqueueLongFormat, 0, "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)"},
		{SqueueLongFormat, 14, "                14   compute a_very_l    carol  PENDING       0:00   1:00:00      3 (Priority)"},
		{SqueueStartFormat, 0, "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)"},
		{SqueueStartFormat, 14, "                14   compute a_very_l    carol PD 2026-11-30T13:58:42      3 n[1-3]               (Priority)"},
		{SqueueStartFormat, 9, "                 9   compute      big    alice PD                 N/A      4 (null)               (Resources)"},
		{"%i|%a|%A|%b|%B|%c|%C|%d|%D|%e|%E|%f|%F|%g|%G|%h|%H|%I", 0, "JOBID|ACCOUNT|JOBID|TRES_PER_NODE|EXEC_HOST|MIN_CPUS|CPUS|MIN_TMP_DISK|NODES|END_TIME|DEPENDENCY|FEATURES|ARRAY_JOB_ID|GROUP|GROUP|OVER_SUBSCRIBE|SOCKETS_PER_NODE|CORES_PER_SOCKET"},
		{"%i|%a|%A|%b|%B|%c|%C|%d|%D|%e|%E|%f|%F|%g|%G|%h|%H|%I", 9, "9|ml-team|9|N/A|n/a|1|4|0|4|N/A|(null)|(null)|9|alice|2001|NO|*|*"},
		{"%i|%a|%A|%b|%B|%c|%C|%d|%D|%e|%E|%f|%F|%g|%G|%h|%H|%I", 10, "10|ml-team|10|N/A|n/a|1|1|0|1|N/A|afterok:2(unfulfilled)|(null)|10|alice|2001|OK|*|*"},
		{"%j|%J|%k|%K|%l|%L|%m|%M|%n|%N|%o|%O|%p|%P|%q|%Q|%r|%S|%t|%T", 0, "NAME|THREADS_PER_CORE|COMMENT|ARRAY_TASK_ID|TIME_LIMIT|TIME_LEFT|MIN_MEMORY|TIME|REQ_NODES|NODELIST|COMMAND|CONTIGUOUS|PRIORITY|PARTITION|QOS|PRIORITY|REASON|START_TIME|ST|STATE"},
		{"%j|%J|%k|%K|%l|%L|%m|%M|%n|%N|%o|%O|%p|%P|%q|%Q|%r|%S|%t|%T", 6, "arr|*|(null)|3-6%2|5:00|5:00|100M|0:00|||(null)|0|0.00000012642704|compute|normal|543|JobArrayTaskLimit|N/A|PD|PENDING"},
		{"%j|%J|%k|%K|%l|%L|%m|%M|%n|%N|%o|%O|%p|%P|%q|%Q|%r|%S|%t|%T", 12, "later|*|(null)|N/A|1:00:00|1:00:00|100M|0:00|||(null)|0|0.00000012642704|compute|normal|543|BeginTime|2030-01-01T00:00:00|PD|PENDING"},
		{"%u|%U|%v|%V|%w|%W|%x|%X|%y|%Y|%z|%Z", 0, "USER|UID|RESERVATION|SUBMIT_TIME|WCKEY|LICENSES|EXC_NODES|CORE_SPEC|NICE|SCHEDNODES|S:C:T|WORK_DIR"},
		{"%u|%U|%v|%V|%w|%W|%x|%X|%y|%Y|%z|%Z", 14, "carol|2003|(null)|2026-11-30T13:53:47|(null)|(null)||N/A|0|n[1-3]|*:*:*|/users/alice"},
		{"%e", 12, "2030-01-01T01:00:00"}, {"%e", 14, "2026-11-30T14:58:42"}, {"%e", 2, "2026-11-30T14:23:42"}, {"%b", 3, "gres:gpu:a100:2"},
		{"%.5i|%5i|%5j|%.5j|%20j|%.20j|%2t|%10T", 14, "   14|14   |a_ver|a_ver|a_very_long_job_name|a_very_long_job_name|PD|PENDING   "},
		{"%i %9", 9, "9 %9"}, {"%i %9", 0, "JOBID %9"}, {"hello", 9, "hello"}, {"%-8j", 9, "%-8j"}, {"job=%i name=%j%%done", 9, "job=9 name=big0one"}, {"", 9, ""}, {"%", 9, ""},
		{`%i\t%j`, 9, `9\tbig`}, {"%R", 2, "n2"}, {`{"a": "%a", "id": %A}`, 9, `{"a": "ml-team", "id": 9}`},
	} {
		l, _ := SqueueFields.Get().ByLetter(c.format)
		got := l.Head()
		if c.job != 0 {
			got = l.Row(row(t, rows, c.job))
		}
		if got != c.want {
			t.Errorf("-o %q of %d:\n%s, want\n%s", c.format, c.job, got, c.want)
		}
	}
}

func TestSqueueNames(t *testing.T) {
	rows := Jobs(testQueue(), testContext(slurm.Release2205), false)
	for _, c := range []struct {
		format string
		job    uint32
		want   string
	}{
		{"JobID,Name,State,TimeUsed,ReasonList", 0, "JOBID               NAME                STATE               TIME                NODELIST(REASON)    "},
		{"JobID,Name,State,TimeUsed,ReasonList", 14, "14                  a_very_long_job_namePENDING             0:00                (Priority)          "},
		{"JobID:.8,Name:.10,State:.12", 14, "      14a_very_lon     PENDING"},
		{"JobID:,Name: ,State:", 14, "14a_very_long_job_name_that_is_truncated PENDING"},
		{"Account:\x1f,JobID:\x1f,tres-alloc,tres-per-node:\x1f", 9, "ml-team\x1f9\x1fcpu=4,mem=400M,node=N/A\x1f"},
		{"tres-alloc:60", 14, "cpu=6,mem=600M,node=3,billing=6                             "},
		{"tres-alloc:", 3, "cpu=1,mem=100M,node=1,billing=1,gres/gpu=2,gres/gpu:a100=2"},
		{"jobid:|,sTaTe:5|", 9, "9|PENDI|"}, {"StdOut:,StdErr: ", 6, "/users/bob/slurm-6.out/users/bob/slurm-6.out "}, {"StdOut:", 7, "/users/bob/slurm-7.out"},
		{"ArrayJobID: ,ArrayTaskID: ,JobArrayID:", 6, "6 3-6%2 6_[3-6%2]"}, {"PendingTime:,EligibleTime: ", 6, "28N/A "},
	} {
		l, notes := SqueueFields.Get().ByName(c.format)
		got := l.Head()
		if c.job != 0 {
			got = l.Row(row(t, rows, c.job))
		}
		if got != c.want || len(notes) > 0 {
			t.Errorf("-O %q of %d: %q (%v), want %q", c.format, c.job, got, notes, c.want)
		}
	}
	if l, notes := SqueueFields.Get().ByName("JobID,NoSuch"); len(notes) != 1 || l.Head() != "JOBID               " {
		t.Errorf("an unknown name: %q, %v", l.Head(), notes)
	}
}

// All 115 names of the man pages are known.
func TestSqueueAllNames(t *testing.T) {
	names := strings.Fields(`Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobId ArrayTaskId AssocId BatchFlag BatchHost BoardsPerNode BurstBuffer BurstBufferState
		Cluster ClusterFeature Command Comment Container ContainerId ContainerType Contiguous Cores CoreSpec CPUsPerTask CronJob Deadline DelayBoot Dependency DerivedEC EligibleTime
		EndTime ExcNodes Exclusive exit_code Feature Gres GroupId GroupName HetJobId HetJobIdSet HetJobOffset JobArrayId JobId LastSchedEval Licenses LicensesAlloc MaxCPUs MaxNodes
		MCSLabel MinCPUs MinMemory MinTime MinTmpDisk Name Network Nice NodeList NTPerCore NTPerNode NTPerSocket NTPerBoard NumCPUs NumNodes NumTasks Origin OriginRaw OverSubscribe
		PackJobId PackJobIdSet PackJobOffset Partition PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS Reason ReasonList Reboot ReqNodes ReqSwitch Requeue
		Reservation ResizeTime RestartCnt SchedNodes SCT SegmentSize SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw Shared SLUID Sockets SPerBoard StartTime State
		StateCompact StdErr StdIn StdOut SubmitTime system_comment Threads TimeLeft TimeLimit TimeUsed Tres UserId UserName WCKey WorkDir tres-alloc tres-per-job tres-per-node
		tres-per-socket tres-per-task tres-bind tres-freq cpus-per-task cpus-per-tres mem-per-tres`)
	for _, n := range names {
		if SqueueFields.Get().named(n) == nil {
			t.Errorf("-O %s is not known", n)
		}
	}
	for _, c := range "aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRSsStTuUvVwWxXyYzZ" {
		if SqueueFields.Get().letter(byte(c)) == nil {
			t.Errorf("-o %%%c is not known", c)
		}
	}
}

func TestSqueueOrder(t *testing.T) {
	rows := Jobs(testQueue(), testContext(slurm.Release2205), false)
	ids := func(spec string) string {
		s, _, err := SqueueFields.Get().Sort(spec, JobSort(slurm.Release2605))
		if err != nil {
			t.Fatal(err)
		}
		sorted := append([]Job(nil), rows...)
		AsLoaded(sorted, false)
		s.Rows(sorted)
		var out []string
		for _, r := range sorted {
			out = append(out, r.Label())
		}
		return strings.Join(out, " ")
	}
	for spec, want := range map[string]string{
		SqueueSort: "9 14 12 10 6_[3-6%2] 11 4 2 6_1 3",
		"i":        "2 3 4 6_1 6_[3-6%2] 9 10 11 12 14",
		"-i":       "14 12 11 10 9 6_[3-6%2] 6_1 4 3 2",
		"S,i":      "2 3 4 6_1 14 12 11 10 9 6_[3-6%2]",
		"u,-i":     "12 11 10 9 4 3 2 6_[3-6%2] 6_1 14",
	} {
		if got := ids(spec); got != want {
			t.Errorf("-S %s: %s, want %s", spec, got, want)
		}
	}
	for _, bad := range []string{"bogus", "-", "i,9"} {
		if _, _, err := SqueueFields.Get().Sort(bad, JobSort(slurm.Release2605)); err == nil {
			t.Errorf("-S %s was accepted", bad)
		}
	}
}

func TestExpandedAndSteps(t *testing.T) {
	c := testContext(slurm.Release2605)
	rows := Expanded(Jobs(testQueue(), c, false))
	l, _ := SqueueFields.Get().ByLetter("%i,%A,%K")
	var got []string
	for _, r := range rows {
		if r.GetArrayId() != 0 {
			got = append(got, l.Row(r))
		}
	}
	if want := "6_3,6,3 6_4,6,4 6_5,6,5 6_6,6,6 6_1,7,1"; strings.Join(got, " ") != want {
		t.Errorf("squeue -r: %s, want %s", strings.Join(got, " "), want)
	}
	sl, _ := StepFields.Get().ByLetter(SqueueStepFormat)
	if got := sl.Head(); got != "         STEPID     NAME PARTITION     USER      TIME NODELIST" {
		t.Errorf("heading of steps: %q", got)
	}
	var lines []string
	for _, s := range Steps(rows) {
		lines = append(lines, sl.Row(s))
	}
	if want := "        4.batch    batch   compute    alice      0:33 n1"; len(lines) != 4 || lines[2] != want {
		t.Errorf("steps: %q", lines)
	}
	if got := Jobs([]*projections.JobView{{Job: &projections.Job{Id: 1, Spec: &events.JobSpec{Partition: "a,b"}}}}, c, true); len(got) != 2 || got[1].partition() != "b" {
		t.Errorf("one row a partition: %v", got)
	}
	if n := len(SqueueFields.Get()); n < 115 {
		t.Errorf("only %d fields", n)
	}
}

func TestClock(t *testing.T) {
	now := at("2026-11-30T19:31:55")
	for _, c := range []struct{ format, time, want string }{
		{"", "2026-11-30T13:53:47", "2026-11-30T13:53:47"}, {"standard", "2026-11-30T13:53:47", "2026-11-30T13:53:47"}, {"relative", "2026-11-30T13:53:47", "13:53:47"},
		{"relative", "2030-01-01T00:00:00", "1 Jan 2030"}, {"relative", "2026-11-29T13:53:47", "Ystday 13:53"}, {"relative", "2026-12-01T13:53:47", "Tomorr 13:53"},
		{"relative", "2026-12-03T13:53:47", "Thu 13:53"}, {"relative", "2026-09-01T13:53:47", "1 Sep 13:53"},
		{"%s", "2026-11-30T13:59:59", "1796047199"}, {"%F %T", "2026-11-30T13:59:59", "2026-11-30 13:59:59"}, {"%Y/%m/%d %H.%M.%S", "2026-11-30T13:53:47", "2026/11/30 13.53.47"},
		{"%a %e %b %j %y %I%p %% %Q %u", "2026-11-30T13:53:47", "Mon 30 Nov 334 26 01PM % %Q 1"},
	} {
		if got := (Clock{Now: now, Format: c.format}).Time(us(c.time), "N/A"); got != c.want {
			t.Errorf("%q of %s: %s, want %s", c.format, c.time, got, c.want)
		}
	}
	for s, want := range map[int64][2]string{0: {"0:00", "00:00:00"}, 17: {"0:17", "00:00:17"}, 3600: {"1:00:00", "01:00:00"}, 93784: {"1-02:03:04", "1-02:03:04"}} {
		if Short(s) != want[0] || Long(s) != want[1] {
			t.Errorf("%d s: %s and %s, want %v", s, Short(s), Long(s), want)
		}
	}
	for u, want := range map[uint64]string{12345: "00:00.012", 3599999000: "59:59.999", 3600000000: "01:00:00", 93784000000: "1-02:03:04"} {
		if got := CPUTime(u); got != want {
			t.Errorf("%d us of CPU time: %s, want %s", u, got, want)
		}
	}
}

func FuzzLayouts(f *testing.F) {
	for _, s := range []string{"%.18i %9P", "JobID:.8|,Name:", "%all", "%#P%.#9N", "%99999999999i", ":,:"} {
		f.Add(s)
	}
	rows := Expanded(Jobs(testQueue(), testContext(slurm.Release2605), true))
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 2000 {
			return
		}
		for _, parse := range []func(string) (Layout[Job], []string){SqueueFields.Get().ByLetter, SqueueFields.Get().ByName} {
			l, _ := parse(s)
			l.Fit(rows)
			for _, r := range rows {
				if text := l.Row(r); len(text) > (len(s)+1)*maxWidth {
					t.Fatalf("%q: a line of %d bytes", s, len(text))
				}
			}
			l.Head()
		}
		SqueueFields.Get().Sort(s, JobSort(slurm.Release2605))
		Strftime(at("2026-11-30T13:53:47"), s)
	})
}
