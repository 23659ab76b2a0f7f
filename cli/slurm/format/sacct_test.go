package format

import (
	"errors"
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/ledger/rows"
)

func testRecords() []*rows.Record {
	one := &rows.Tres{Cpus: 1, MemMib: 100, Nodes: 1, Billing: 1}
	start, end := us("2026-11-30T13:59:59"), us("2026-11-30T14:00:00")
	step := func(id uint32, name string, state events.JobState, code uint32, user, system uint64) *rows.StepRow {
		return &rows.StepRow{Step: id, Name: name, State: state, ExitCode: code, SubmitUs: start, StartUs: start, EndUs: end, Nodes: "n2", NodeCount: 1, Tasks: 1, Alloc: one, UserUs: user, SystemUs: system}
	}
	batch := step(events.StepBatch, "batch", events.JobState_CANCELLED, 0, 1000, 2000)
	batch.ExitSignal, batch.StartUs, batch.EndUs, batch.Samples = 15, us("2026-11-30T13:59:59"), us("2026-11-30T14:01:12"), 3
	seen := func(v uint64) *rows.Peak { return &rows.Peak{Value: v, Node: "n1"} }
	batch.MaxRssKib, batch.MaxVmKib, batch.MaxPages, batch.MinCpuUs, batch.MaxRead, batch.MaxWrite = seen(2992), seen(5092), seen(0), seen(3000), seen(8091), seen(1000)
	batch.SumPeakRssKib, batch.SumPeakVmKib, batch.ReadBytes, batch.WriteBytes = 2992, 5092, 8091, 1000
	one0 := step(0, "true", events.JobState_COMPLETED, 0, 1000, 0)
	one0.SubmitLine = "srun true"
	return []*rows.Record{
		{Job: &rows.JobRow{Job: 9, Run: 1, Name: "steps", User: "alice", Group: "alice", Uid: 2001, Gid: 2001, Account: "ml-team", Partition: "compute", Qos: "normal", State: events.JobState_FAILED,
			ExitCode: 5, DerivedCode: 12, SubmitUs: us("2026-11-30T13:59:56"), EligibleUs: us("2026-11-30T13:59:56"), StartUs: start, EndUs: end, LimitS: 3600, Priority: 543, Nodes: "n2",
			Req: one, Alloc: one, MemPerCpuMib: 100, WorkDir: "/users/alice", SubmitLine: "sbatch x", UserUs: 20000, SystemUs: 13000, SubmittedSeq: 10, Steps: 2},
			Steps: []*rows.StepRow{step(events.StepBatch, "batch", events.JobState_FAILED, 5, 15000, 13000), one0}},
		{Job: &rows.JobRow{Job: 1, Run: 1, Name: "timeout_trap", Account: "ml-team", Partition: "compute", State: events.JobState_TIMEOUT, StartUs: us("2026-11-30T13:59:59"), EndUs: us("2026-11-30T14:01:12"), LimitS: 60, Req: one, Alloc: one, Nodes: "n1"},
			Steps: []*rows.StepRow{batch}},
		{Job: &rows.JobRow{Job: 14, Name: "cancelme", State: events.JobState_CANCELLED, WasCancelled: true, CancelledBy: 2001, Account: "ml-team", Partition: "compute", Req: one, LimitS: events.Unlimited, EndUs: us("2026-11-30T20:19:43")}},
		{Job: &rows.JobRow{Job: 13, Name: "requeueme", State: events.JobState_PENDING, Requeued: true, Account: "ml-team", Partition: "compute", Req: one}},
		{Job: &rows.JobRow{Job: 183, ArrayId: 11, ArrayTask: 1, HasTask: true, Name: "arrrc", State: events.JobState_RUNNING, Account: "ml-team", Partition: "gpu", StartUs: us("2026-11-30T13:54:00"),
			Req:   &rows.Tres{Cpus: 8, MemMib: 64000, Nodes: 2, Billing: 8, Gres: []*rows.GresCount{{Name: "gpu", Type: "a100", Count: 2}}},
			Alloc: &rows.Tres{Cpus: 8, MemMib: 64000, Nodes: 2, Billing: 8, Gres: []*rows.GresCount{{Name: "gpu", Type: "a100", Count: 2}}}, Nodes: "n[3-4]"}},
	}
}

func sacct(t *testing.T, r slurm.Release, args ...string) string {
	q, err := slurm.ReadSacct(slurm.Input{Args: args, Release: r, Now: at("2026-11-30T13:54:15"), User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	c := &AccountContext{Context: *testContext(r), Unit: q.Unit}
	table, err := AccountTable(q.Format, r)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if !q.NoHeader {
		b.WriteString(table.Head(q.Separation))
	}
	for _, a := range Accounts(testRecords(), c) {
		b.WriteString(table.Row(q.Separation, a))
	}
	return b.String()
}

// The columns of the real sacct, and its rows for equal jobs.
func TestSacct(t *testing.T) {
	if got, want := sacct(t, slurm.Release2205), `JobID           JobName  Partition    Account  AllocCPUS      State ExitCode 
------------ ---------- ---------- ---------- ---------- ---------- -------- 
9                 steps    compute    ml-team          1     FAILED      5:0 
9.batch           batch               ml-team          1     FAILED      5:0 
9.0                true               ml-team          1  COMPLETED      0:0 
1            timeout_t+    compute    ml-team          1    TIMEOUT      0:0 
1.batch           batch               ml-team          1  CANCELLED     0:15 
14             cancelme    compute    ml-team          1 CANCELLED+      0:0 
13            requeueme    compute    ml-team          1   REQUEUED      0:0 
11_1              arrrc        gpu    ml-team          8    RUNNING      0:0 
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	lines := strings.Split(sacct(t, slurm.Release2205, "-P", "-o", "ALL"), "\n")
	for i, want := range []string{
		"Account|AdminComment|AllocCPUS|AllocNodes|AllocTRES|AssocID|AveCPU|AveCPUFreq|AveDiskRead|AveDiskWrite|AvePages|AveRSS|AveVMSize|BlockID|Cluster|Comment|Constraints|ConsumedEnergy|ConsumedEnergyRaw|Container|CPUTime|CPUTimeRAW|DBIndex|DerivedExitCode|Elapsed|ElapsedRaw|Eligible|End|ExitCode|Flags|GID|Group|JobID|JobIDRaw|JobName|Layout|MaxDiskRead|MaxDiskReadNode|MaxDiskReadTask|MaxDiskWrite|MaxDiskWriteNode|MaxDiskWriteTask|MaxPages|MaxPagesNode|MaxPagesTask|MaxRSS|MaxRSSNode|MaxRSSTask|MaxVMSize|MaxVMSizeNode|MaxVMSizeTask|McsLabel|MinCPU|MinCPUNode|MinCPUTask|NCPUS|NNodes|NodeList|NTasks|Partition|Priority|QOS|QOSRAW|Reason|ReqCPUFreq|ReqCPUFreqGov|ReqCPUFreqMax|ReqCPUFreqMin|ReqCPUS|ReqMem|ReqNodes|ReqTRES|Reservation|ReservationId|Reserved|ResvCPU|ResvCPURAW|Start|State|Submit|SubmitLine|Suspended|SystemComment|SystemCPU|Timelimit|TimelimitRaw|TotalCPU|TRESUsageInAve|TRESUsageInMax|TRESUsageInMaxNode|TRESUsageInMaxTask|TRESUsageInMin|TRESUsageInMinNode|TRESUsageInMinTask|TRESUsageInTot|TRESUsageOutAve|TRESUsageOutMax|TRESUsageOutMaxNode|TRESUsageOutMaxTask|TRESUsageOutMin|TRESUsageOutMinNode|TRESUsageOutMinTask|TRESUsageOutTot|UID|User|UserCPU|WCKey|WCKeyID|WorkDir",
		"ml-team||1|1|billing=1,cpu=1,mem=100M,node=1|0|||||||||oracle|||0|0||00:00:01|1|10|12:0|00:00:01|1|2026-11-30T13:59:56|2026-11-30T14:00:00|5:0|SchedMain,StartRecieved|2001|alice|9|9|steps|||||||||||||||||||||1|1|n2||compute|543|normal|0|None|Unknown|Unknown|Unknown|Unknown|1|100M|1|billing=1,cpu=1,mem=100M,node=1|||00:00:03|00:00:03|3|2026-11-30T13:59:59|FAILED|2026-11-30T13:59:56|sbatch x|00:00:00||00:00.013|01:00:00|60|00:00.033|||||||||||||||||2001|alice|00:00.020||0|/users/alice",
		"ml-team||1|1|cpu=1,mem=100M,node=1|0||0|||||||oracle|||0|0||00:00:01|1|10||00:00:01|1|2026-11-30T13:59:59|2026-11-30T14:00:00|5:0||||9.batch|9.batch|batch|Unknown||||||||||||||||||||1|1|n2|1||||||0|0|0|0|1||1|||||||2026-11-30T13:59:59|FAILED|2026-11-30T13:59:59||00:00:00||00:00.013|||00:00.028|energy=0|||||||energy=0|energy=0|||||||energy=0|||00:00.015|||",
		"ml-team||1|1|cpu=1,mem=100M,node=1|0||0|||||||oracle|||0|0||00:00:01|1|10||00:00:01|1|2026-11-30T13:59:59|2026-11-30T14:00:00|0:0||||9.0|9.0|true|Cyclic||||||||||||||||||||1|1|n2|1||||||Unknown|Unknown|Unknown|Unknown|1||1|||||||2026-11-30T13:59:59|COMPLETED|2026-11-30T13:59:59|srun true|00:00:00||00:00:00|||00:00.001|energy=0|||||||energy=0|energy=0|||||||energy=0|||00:00.001|||",
	} {
		if lines[i] != want {
			t.Errorf("line %d of -o ALL:\n%s\nwant\n%s", i, lines[i], want)
		}
	}
	for _, c := range []struct {
		args string
		line int
		want string
	}{
		{"-n -o JobID%20,JobName%-15,State%5,ExitCode", 0, "                   9 steps           FAIL+      5:0 "},
		{"-n -o JobID%0,GID%0,NTasks%0,Elapsed%0,End%0,State%x,Cluster%-", 0, " 2001   00:00:01    "},
		{"-o JobID%0,GID%0,State%3", 0, "  Sta "},
		{"-n -o GID%2,End%12,State%3", 0, "2001 2026-11-30T1 FA+ "},
		{"-n -P -o Start%4,End%-7,State%3", 0, "2026|2026-11|FAILED"},
		{"-o JobID%15,JobID%-40", 0, "JobID                                    JobID                                    "},
		{"-o JobID,Timelimit,TimelimitRaw", 0, "JobID         Timelimit TimelimitR "},
		{"-n -P -o jobidraw,state,Timelimit,Start,End", 5, "14|CANCELLED by 2001|UNLIMITED|2026-11-30T20:19:43|2026-11-30T20:19:43"},
		{"-n -P -o JobID,JobIDRaw,State,AllocTRES,NodeList,Start,End,Elapsed", 7, "11_1|183|RUNNING|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=62.50G,node=2|n[3-4]|2026-11-30T13:54:00|Unknown|00:00:15"},
		{"-n -p --delimiter ^|^ -o JobID,State", 0, "9^|^FAILED^|^"},
		{"-n -P -o MaxRSS,MaxVMSize,AveRSS,MaxPages,AveCPU,MaxDiskRead,MaxDiskWrite,NTasks,MaxRSSNode,MaxRSSTask", 4, "2992K|5092K|2992K|0|00:00:00|0.01M|0.00M|1|n1|0"},
		{"-n -P -o TRESUsageInTot,TRESUsageInMaxNode,TRESUsageOutTot", 4, "cpu=00:00:00,energy=0,fs/disk=8091,mem=2992K,pages=0,vmem=5092K|cpu=n1,energy=n1,fs/disk=n1,mem=n1,pages=n1,vmem=n1|energy=0,fs/disk=1000"},
		{"-n -P --units=G -o ReqMem,AllocTRES", 0, "0.10G|billing=1,cpu=1,mem=0.10G,node=1"},
		{"-n -P --noconvert -o ReqMem", 0, "100M"},
		{"-P -o job,jobidr,stat,elap,UserC", 0, "JobID|JobIDRaw|State|Elapsed|UserCPU"},
		{"-n -P -o AllocTRES,AllocNodes,NNodes,NodeList", 5, "|0|1|None assigned"},
	} {
		if got := strings.Split(sacct(t, slurm.Release2205, strings.Fields(c.args)...), "\n")[c.line]; got != c.want {
			t.Errorf("sacct %s, line %d:\n%s\nwant\n%s", c.args, c.line, got, c.want)
		}
	}
	for bad, want := range map[string]string{"NoSuch": "Invalid field requested", "x": "Invalid field requested", "JobID,AllocGRES": "AllocGRES has been removed, please use AllocTRES", "allocgres": "AllocGRES has been removed, please use AllocTRES", "Planned": "Invalid field", ",": "no column"} {
		_, err := AccountTable(bad, slurm.Release2205)
		if f := (*slurm.Failure)(nil); !errors.As(err, &f) || f.Exit != 1 || !strings.Contains(f.Text, want) {
			t.Errorf("-o %s: %v", bad, err)
		}
	}
	if _, err := AccountTable("JobID%x", slurm.Release2605); err == nil || !strings.Contains(err.Error(), "is not a width") {
		t.Errorf("JobID%%x: %v", err)
	}
	if _, err := AccountTable("Reserved", slurm.Release2605); err == nil || !strings.Contains(err.Error(), "please use Planned") {
		t.Errorf("Reserved: %v", err)
	}
	if got := AccountFieldNames(slurm.Release2205); !strings.HasPrefix(got, "Account             AdminComment        AllocCPUS           AllocNodes         \nAllocTRES           ") || !strings.HasSuffix(got, "\nWorkDir            \n") {
		t.Errorf("--helpformat:\n%s", got)
	}
	if got := strings.Split(sacct(t, slurm.Release2605, "-l"), "\n")[0]; !strings.HasPrefix(got, "JobID        JobIDRaw        JobName  Partition  MaxVMSize  MaxVMSizeNode  MaxVMSizeTask") {
		t.Errorf("-l: %s", got)
	}
}

func FuzzAccountTable(f *testing.F) {
	f.Add("JobID%20,State%-5,ALL")
	f.Add("ALL,ALL%3,user%0")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1000 {
			return
		}
		table, err := AccountTable(s, slurm.Release2605)
		if err != nil {
			return
		}
		c := &AccountContext{Context: *testContext(slurm.Release2605)}
		for _, q := range []slurm.Separation{{}, {Parsable: true, Delimiter: "|"}} {
			table.Head(q)
			for _, a := range Accounts(testRecords(), c) {
				table.Row(q, a)
			}
		}
	})
}
