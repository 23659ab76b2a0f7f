package format

import (
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// Records as the real scontrol printed them for the same jobs, nodes and partitions; the process id of the submitter is 0.
func TestJobRecord(t *testing.T) {
	rows := Jobs(testQueue(), testContext(slurm.Release2205), false)
	if got, want := row(t, rows, 2).Record(false, 0), `JobId=2 JobName=run1
   UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A
   Priority=600 Nice=0 Account=ml-team QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:33 TimeLimit=00:30:00 TimeMin=N/A
   SubmitTime=2026-11-30T13:53:41 EligibleTime=2026-11-30T13:53:41
   AccrueTime=2026-11-30T13:53:41
   StartTime=2026-11-30T13:53:42 EndTime=2026-11-30T14:23:42 Deadline=N/A
   PreemptEligibleTime=2026-11-30T13:53:42 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T13:53:42 Scheduler=Main
   Partition=compute AllocNode:Sid=localhost:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n2
   BatchHost=n2
   NumNodes=1 NumCPUs=4 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,mem=500M,node=1,billing=4
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=2 MinMemoryNode=500M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/users/alice
   StdErr=/users/alice/slurm-2.out
   StdIn=/dev/null
   StdOut=/users/alice/slurm-2.out
   Power=
   

`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, c := range []struct {
		job     uint32
		details int
		want    []string
	}{
		{3, 0, []string{"TRES=cpu=1,mem=100M,node=1,billing=1,gres/gpu=2,gres/gpu:a100=2\n", "   Power=\n   TresPerNode=gres:gpu:a100:2\n   \n\n"}},
		{3, 1, []string{"ExitCode=0:0\n   DerivedExitCode=0:0\n   RunTime", "   JOB_GRES=gpu:a100:2\n     Nodes=n3 CPU_IDs=0 Mem=100 GRES=gpu:a100:2(IDX:0-1)\n   MinCPUsNode=1"}},
		{4, 2, []string{"   NodeList=n[1-2]\n   BatchHost=n1\n   NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*", "NtasksPerN:B:S:C=2:0:*:*", "   JOB_GRES=(null)\n     Nodes=n1 CPU_IDs=4-5 Mem=200 GRES=\n     Nodes=n2 CPU_IDs=0-1 Mem=200 GRES=\n   MinCPUsNode=2",
			"   Command=/users/alice/job.sh\n   WorkDir=/users/alice\n   Comment=hello \n   StdErr="}},
		{9, 0, []string{"   JobState=PENDING Reason=Resources Dependency=(null)\n", "   StartTime=Unknown EndTime=Unknown Deadline=N/A\n   SuspendTime", "   NodeList=\n   NumNodes=4-4 NumCPUs=4 NumTasks=4", "   TRES=cpu=4,mem=400M,node=4,billing=4\n", "OverSubscribe=NO"}},
		{10, 0, []string{"Reason=Dependency Dependency=afterok:2(unfulfilled)\n", "EligibleTime=Unknown\n   AccrueTime=Unknown\n", "   NumNodes=1 NumCPUs=1 NumTasks=1"}},
		{12, 0, []string{"StartTime=2030-01-01T00:00:00 EndTime=2030-01-01T01:00:00"}},
		{6, 0, []string{"JobId=6 ArrayJobId=6 ArrayTaskId=3-6%2 ArrayTaskThrottle=2 JobName=arr\n", "   StdOut=/users/bob/slurm-6_4294967294.out\n"}},
		{7, 0, []string{"JobId=7 ArrayJobId=6 ArrayTaskId=1 ArrayTaskThrottle=2 JobName=arr\n", "   StdOut=/users/bob/slurm-6_1.out\n"}},
	} {
		got := row(t, rows, c.job).Record(false, c.details)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("job %d lacks %q:\n%s", c.job, w, got)
			}
		}
	}
	if got := row(t, rows, 2).Record(true, 0); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "JobId=2 JobName=run1 UserId=alice(2001) ") || !strings.HasSuffix(got, "StdOut=/users/alice/slurm-2.out Power= \n") {
		t.Errorf("on one line: %q", got)
	}
	newer := Jobs(testQueue(), testContext(slurm.Release2605), false)
	got := row(t, newer, 3).Record(false, 0)
	if !strings.Contains(got, "   ReqTRES=cpu=1,mem=100M,node=1,billing=1,gres/gpu=2,gres/gpu:a100=2\n   AllocTRES=cpu=1,") || strings.Contains(got, "Power=") || !strings.Contains(got, "TresPerNode=gres/gpu:a100:2\n") {
		t.Errorf("26.05:\n%s", got)
	}
	if got := row(t, newer, 9).Record(false, 0); !strings.Contains(got, "AllocTRES=(null)") {
		t.Errorf("26.05, pending:\n%s", got)
	}
}

func TestNodeAndPartitionRecords(t *testing.T) {
	answer := testNodes()
	c := &NodeContext{Context: *testContext(slurm.Release2205), UserName: func(uint32) string { return "root" }}
	n4 := answer.Nodes[3]
	n4.Inventory = &events.Inventory{Arch: "x86_64", Os: "Linux 6.18.44", BootUs: us("2026-11-30T13:13:07")}
	n4.Partitions, n4.ExecutorStartUs, n4.BusyUs, n4.Version = []string{"compute", "gpu"}, us("2026-11-30T13:53:29"), us("2026-11-30T13:53:29"), "x"
	if got, want := NodeRecord(n4, c, false, 0), `NodeName=n4 Arch=x86_64 CoresPerSocket=8 
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=N/A
   AvailableFeatures=amd,gpu,a100
   ActiveFeatures=amd,gpu,a100
   Gres=gpu:a100:4
   NodeAddr=127.0.0.1 NodeHostName=n4 Port=17004 Version=22.05.8
   OS=Linux 6.18.44 
   RealMemory=16000 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=10000 Weight=20 Owner=N/A MCS_label=N/A
   Partitions=compute,gpu 
   BootTime=2026-11-30T13:13:07 SlurmdStartTime=2026-11-30T13:53:29
   LastBusyTime=2026-11-30T13:53:29
   CfgTRES=cpu=8,mem=16000M,billing=8,gres/gpu=4,gres/gpu:a100=4
   AllocTRES=
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
   Reason=disk failure [root@2026-11-30T13:53:47]

`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	n4.Def.CoreSpec, n4.Def.MemSpecMib = 2, 1000
	if got := NodeRecord(n4, c, false, 0); !strings.Contains(got, " CPUEfctv=6 CPUTot=8 ") || !strings.Contains(got, " Boards=1\n   CoreSpecCount=2 CPUSpecList=6-7 MemSpecLimit=1000\n   State=") || !strings.Contains(got, "   CfgTRES=cpu=6,mem=16000M,billing=6,") {
		t.Errorf("with cores kept for the system:\n%s", got)
	}
	n4.Def.CoreSpec, n4.Def.MemSpecMib = 0, 0
	if got := NodeRecord(answer.Nodes[2], c, false, 1); !strings.Contains(got, "   GresDrain=N/A\n   GresUsed=gpu:a100:2(IDX:0-1)\n") || !strings.Contains(got, "   AllocTRES=cpu=1,mem=100M,gres/gpu=2,gres/gpu:a100=2\n") {
		t.Errorf("details:\n%s", got)
	}
	if got := NodeRecord(n4, c, true, 0); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "NodeName=n4 Arch=x86_64 CoresPerSocket=8  CPUAlloc=0 ") {
		t.Errorf("on one line: %q", got)
	}
	if got, want := PartitionRecord(answer.Partitions[0], answer.Nodes, c, false), `PartitionName=compute
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-4]
   PriorityJobFactor=100 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=32 TotalNodes=4 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=32,mem=62.50G,node=4,billing=32,gres/gpu=8,gres/gpu:a100=8

`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConfigRecord(t *testing.T) {
	a := &projections.AnswerConfig{BootUs: us("2026-11-30T13:53:14"), NextId: 17, Config: &events.Config{Cluster: "oracle", KillWaitS: 5, MinJobAgeS: 300, MaxArraySize: 50001,
		MaxJobCount: 100000, FirstJobId: 1, JobRequeue: true, NodeTimeoutS: 60, ReturnToServiceN: 2, DefMemPerCpuMib: 100, Backfill: true, SelectCore: true, SelectMemory: true,
		GresTypes: []string{"gpu"}, Controllers: []string{"vm"}, Settings: []*events.Setting{{Key: "KillWait", Value: "5"}, {Key: "AuthType", Value: "auth/munge"}, {Key: "Licenses", Value: "matlab:4,ansys:2"}, {Key: "Epilog"}, {Key: "WaitTime", Value: "0"}, {Key: "PriorityMaxAge", Value: "7-0"}, {Key: "ResvOverRun", Value: "UNLIMITED"}}}}
	got := Config(a, testContext(slurm.Release2205), ConfigPlace{Host: "vm", File: "/etc/slurm/slurm.conf"})
	for _, want := range []string{
		"Configuration data as of 2026-11-30T13:54:15\nAccountingStorageBackupHost = (null)\n", "\nAuthType                = auth/munge\n", "\nBOOT_TIME               = 2026-11-30T13:53:14\n", "\nClusterName             = oracle\n", "\nDefMemPerCPU            = 100\n",
		"\nSlurmUser               = root\n", "\nMaxDBDMsgs              = 200000\n", "\nLaunchType              = launch/slurm\n",
		"\nEpilog                  = (null)\n", "\nWaitTime                = 0 sec\n", "\nPriorityMaxAge          = 7-00:00:00\n", "\nResvOverRun             = UNLIMITED\n", "\nKillWait                = 5 sec\n", "\nLicenses                = matlab:4,ansys:2\n", "\nMaxArraySize            = 50001\n", "\nMaxMemPerNode           = UNLIMITED\n",
		"\nMinJobAge               = 300 sec\n", "\nNEXT_JOB_ID             = 17\n", "\nOverTimeLimit           = 0 min\n", "\nSchedulerType           = sched/backfill\n", "\nSelectTypeParameters    = CR_CORE_MEMORY\n",
		"\nSLURM_CONF              = /etc/slurm/slurm.conf\n", "\nSLURM_VERSION           = 22.05.8\n", "\nSlurmctldHost[0]        = vm\n", "\nSlurmdTimeout           = 60 sec\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if got := Config(a, testContext(slurm.Release2605), ConfigPlace{}); strings.Contains(got, "LaunchType") || !strings.Contains(got, "\nCertmgrType ") {
		t.Errorf("of another release:\n%s", got)
	}
	keys := map[string]bool{}
	for _, r := range configTable {
		if keys[strings.ToLower(r.key)] {
			t.Errorf("%s stands twice", r.key)
		}
		keys[strings.ToLower(r.key)] = true
	}
	if got := Ping("primary", "vm", true); got != "Slurmctld(primary) at vm is UP\n" {
		t.Errorf("ping: %q", got)
	}
}

func TestStepRecord(t *testing.T) {
	for _, s := range Steps(Jobs(testQueue(), testContext(slurm.Release2205), false)) {
		if s.GetId() == 2 {
			if got, want := s.Record(false), "StepId=2.batch UserId=2001 StartTime=2026-11-30T13:53:42 TimeLimit=UNLIMITED\n   State=RUNNING Partition=compute NodeList=n2\n   Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)\n   TRES=(null)\n   ResvPorts=(null)\n   CPUFreqReq=Default\n   SrunHost:Pid=(null):0\n\n"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	}
}
