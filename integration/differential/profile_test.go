package differential

import (
	"fmt"
	"strings"
)

// profile is a cluster of four nodes, n3 and n4 with four GPUs each.
type profile struct {
	name   string
	params string // SelectTypeParameters
	shape  string // of every node
	more   string // lines of slurm.conf
}

const (
	flat    = "CPUs=8 Boards=1 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1"
	sockets = "CPUs=8 Boards=1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1"
	threads = "CPUs=16 Boards=1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
)

var profiles = []profile{
	{"core-mem", "CR_Core_Memory", flat, "DefMemPerCPU=100"},
	{"core-threads", "CR_Core", threads, ""},
	{"core-mem-threads", "CR_Core_Memory", threads, "DefMemPerCPU=100\nMaxMemPerCPU=1000"},
	{"cpu-mem-threads", "CR_CPU_Memory", threads, "DefMemPerNode=400\nMaxMemPerNode=12000"},
	{"cpu", "CR_CPU", flat, ""},
	{"socket-mem", "CR_Socket_Memory", sockets, "DefMemPerCPU=200"},
	{"socket-threads", "CR_Socket", threads, ""},
	{"core-mem-none", "CR_Core_Memory", sockets, ""},
	{"gpu-defaults", "CR_Core_Memory", sockets, "DefMemPerCPU=100\nDefCpuPerGPU=2\nDefMemPerGPU=700"},
	{"max-mem-flat", "CR_CPU_Memory", flat, "DefMemPerCPU=100\nMaxMemPerCPU=800"},
	{"one-task-per-core", "CR_Core_Memory,CR_ONE_TASK_PER_CORE", threads, "DefMemPerCPU=100"},
}

// conf is the profile's slurm.conf; run is the folder that the cluster may write to, host the machine's name.
func (p profile) conf(run string, compat bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=world
SlurmctldHost=vm(127.0.0.1)
SlurmctldPort=6817
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=%[1]s/state.oracle
SlurmdSpoolDir=%[1]s/spool.%%n
SlurmctldPidFile=%[1]s/state.oracle/slurmctld.own.pid
SlurmdPidFile=%[1]s/spool.%%n/slurmd.own.pid
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
SlurmdParameters=config_overrides
MinJobAge=300
KillWait=5
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_continue
SelectType=select/cons_tres
SelectTypeParameters=%[2]s
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
GresTypes=gpu
Licenses=matlab:4
%[4]s
NodeName=n[1-2] NodeHostname=n[1-2] NodeAddr=127.0.0.1 Port=[17001-17002] %[3]s RealMemory=16000 TmpDisk=10000 Feature=intel Weight=10 State=UNKNOWN
NodeName=n[3-4] NodeHostname=n[3-4] NodeAddr=127.0.0.1 Port=[17003-17004] %[3]s RealMemory=16000 TmpDisk=10000 Feature=amd Gres=gpu:a100:4 Weight=20 State=UNKNOWN
PartitionName=compute Nodes=n[1-4] Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=gpu Nodes=n[3-4] MaxTime=12:00:00 DefaultTime=00:30:00 State=UP
`, run, p.params, p.shape, p.more)
	if compat {
		b.WriteString("SlurmCompat=22.05\n")
	}
	return b.String()
}

// gresConf is the profile's gres.conf; dev is where the device files are.
func gresConf(dev string) string {
	return fmt.Sprintf("NodeName=n[3-4] Name=gpu Type=a100 File=%s/nvidia[0-3]\n", dev)
}
