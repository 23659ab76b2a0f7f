package conf

import (
	"strings"

	"stint/cli/slurm/once"
)

// Class says what becomes of a key of slurm.conf.
type Class byte

const (
	// Honoured keys mean here what they mean in Slurm.
	Honoured Class = iota
	// Mapped keys name a part of Slurm whose place something else takes.
	Mapped
	// Harmless keys are read, kept and listed; what they adjust does not exist here, or not yet.
	Harmless
	// Refused keys promise something that users or the site would miss without being told.
	Refused
)

func (c Class) String() string {
	return [...]string{"honoured", "mapped", "harmless", "refused"}[c]
}

// keyGroup is keys that share a class and the sentence about them.
type keyGroup struct {
	class Class
	text  string
	keys  string
}

// keyTable is every key of slurm.conf from 22.05 to 26.05, and Stint's own two. Values that change a class are in classify.
var keyTable = []keyGroup{
	{Honoured, "", `ClusterName DefCpuPerGPU DefMemPerGPU DefMemPerCPU DefMemPerNode DisableRootJobs DownNodes EnforcePartLimits FirstJobId GresTypes
		JobFileAppend JobRequeue KillWait MaxArraySize MaxBatchRequeue MaxJobCount MaxMemPerCPU MaxMemPerNode MinJobAge NodeName NodeSet OverTimeLimit
		PartitionName PropagateResourceLimits PropagateResourceLimitsExcept ReturnToService SchedulerParameters SchedulerType SelectType
		SelectTypeParameters SlurmUser SlurmctldHost SlurmdTimeout Licenses SlurmCompat SelfFence MailProg MailDomain
		AccountingStorageEnforce AccountingStorageTRES RequeueExit RequeueExitHold
		WaitTime KillOnBadExit MpiDefault SrunPortRange MaxTasksPerNode MaxStepCount SrunProlog SrunEpilog TaskProlog TaskEpilog TrackWCKey PrivateData SlurmctldParameters ScronParameters`},

	{Mapped, "users are known by the kernel's word; no munge is needed", "AuthType CredType AuthInfo CryptoType"},
	{Mapped, "the ledger keeps accounting; no slurmdbd or database is needed", `AccountingStorageType AccountingStorageHost
		AccountingStorageBackupHost AccountingStoragePort AccountingStorageUser AccountingStoragePass AccountingStorageLoc
		AccountingStorageExternalHost AccountingStorageParameters AccountingStoreFlags AccountingStoreJobComment`},
	{Mapped, "the log holds the state", "StateSaveLocation"},
	{Mapped, "controllers of a cluster are found through the bus", `ControlMachine ControlAddr BackupController BackupAddr SlurmctldAddr
		SlurmctldPort SlurmdPort`},
	{Mapped, "executors keep their spool under the state folder", "SlurmdSpoolDir"},
	{Mapped, "the supervisor tracks processes by their control group", "ProctrackType"},
	{Mapped, "the supervisor binds and confines tasks", "TaskPlugin TaskPluginParam"},
	{Mapped, "usage is sampled by the executor", `JobAcctGatherType JobAcctGatherFrequency JobAcctGatherParams`},
	{Mapped, "job ends are published on the bus", "JobCompType"},

	{Mapped, "how much a controller logs; it has one log, so any flag has all of it told", "SlurmctldDebug DebugFlags"},
	{Harmless, "processes log to their standard error; set verbosity there", `SlurmctldLogFile SlurmctldSyslogDebug SlurmdDebug
		SlurmdLogFile SlurmdSyslogDebug SlurmSchedLogFile SlurmSchedLogLevel LogTimeFormat`},
	{Harmless, "process ids are kept in the state folder", "SlurmctldPidFile SlurmdPidFile"},
	{Harmless, "the executor runs as the user who starts it", "SlurmdUser"},
	{Harmless, "messages travel on the bus, which has limits of its own", `MessageTimeout TCPTimeout TreeWidth CommunicationParameters
		SlurmdParameters SlurmctldTimeout KeepAliveTime RoutePlugin SwitchType SwitchParameters TopologyPlugin TopologyParam
		EioTimeout EpilogMsgTime BatchStartTimeout MaxDBDMsgs MaxNodeCount MaxJobId ReconfigFlags HashPlugin TLSParameters TLSType
		CertgenParameters CertgenType CertmgrParameters CertmgrType HttpParserType UrlParserType DataParserParameters MetricsType
		MetricsParameters MetricsAuthUsers SlurmctldHttpAuthParameters SlurmdHttpAuthParameters`},
	{Harmless, "there are no plugins to find", "PluginDir"},
	{Harmless, "jobs are ordered by submission within their priority; multifactor priorities are not built yet", `PriorityType PriorityCalcPeriod
		PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters PriorityUsageResetPeriod PriorityWeightAge
		PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES
		PrioritySiteFactorParameters PrioritySiteFactorPlugin FairShareDampeningFactor`},
	{Harmless, "no job is preempted yet", "PreemptType PreemptMode PreemptExemptTime PreemptParameters SchedulerTimeSlice"},
	{Harmless, "licences are those of the cluster alone", "LicenseParameters"},
	{Harmless, "srun gives programs no ports, and PMIx what its library has by default", "MpiParams"},
	{Harmless, "srun launches steps itself", "LaunchType"},
	{Harmless, "salloc and srun are not asked whether they still live; an allocation lasts until they end or its time limit", "InactiveLimit"},
	{Harmless, "salloc runs the user's shell where it is called", "SallocDefaultCommand InteractiveStepOptions LaunchParameters"},
	{Harmless, "of BcastParameters DestDir counts; what is copied is compressed where the command says so, and libraries are not copied", "BcastParameters BcastExclude SbcastParameters"},
	{Harmless, "jobs run at the node's own priority (nice 0); one in the script changes it", "PropagatePrioProcess"},
	{Harmless, "virtual memory is not limited; real memory is", "VSizeFactor"},
	{Harmless, "steps that can not be killed are reported when it happens", "UnkillableStepTimeout UnkillableStepProgram"},
	{Harmless, "power saving is not built: nodes stay up", `SuspendTime SuspendTimeout SuspendRate ResumeRate ResumeTimeout SuspendExcNodes
		SuspendExcParts SuspendExcStates PowerParameters PowerPlugin PowerAction`},
	{Harmless, "temporary space is not managed", "TmpFS"},
	{Harmless, "the frequency of CPUs and GPUs is left alone", "CpuFreqDef CpuFreqGovernors GpuFreqDef"},
	{Harmless, "energy, interconnect and file system are not profiled", `AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
		AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType ExtSensorsFreq ExtSensorsType`},
	{Harmless, "groups are looked up when a job is submitted", "GroupUpdateForce GroupUpdateTime"},
	{Harmless, "the login environment is read with a time limit of its own", "GetEnvTimeout"},
	{Harmless, "nothing is wound down slowly", "CompleteWait"},
	{Harmless, "there is no federation, reservation or multi-category security yet", `FederationParameters ResvOverRun MCSParameters
		MCSPlugin DependencyParameters`},
	{Harmless, "Slurm itself has dropped it", `FastSchedule CoreSpecPlugin JobCredentialPrivateKey JobCredentialPublicCertificate SlurmctldPlugstack`},
	{Harmless, "cores are set aside for the system as the nodes have it", "AllowSpecResourcesUsage"},
	{Harmless, "it parameterises what is refused or absent here", `PrEpParameters CliFilterParameters BurstBufferParameters EpilogTimeout PrologTimeout
		PrologEpilogTimeout HealthCheckInterval HealthCheckNodeState HealthCheckTimeout JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort
		JobCompUser PrologFlags`},

	{Refused, "the scripts of a site around jobs are not run yet; jobs would start without what they prepare", `Prolog Epilog PrologSlurmctld
		EpilogSlurmctld ResvProlog ResvEpilog PrEpPlugins`},
	{Refused, "Slurm plugins can not be loaded; what they decide about jobs would not happen", `JobSubmitPlugins CliFilterPlugins PlugStackConfig
		NodeFeaturesPlugins BurstBufferType JobContainerType NamespaceType`},
	{Refused, "no program of the site is called for this yet", `HealthCheckProgram RebootProgram ResumeProgram ResumeFailProgram SuspendProgram
		SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg`},
	{Refused, "front ends are not supported, and Slurm has dropped them", "FrontendName"},
	{Refused, "sessions are not opened through PAM yet", "UsePAM"},
	{Refused, "tokens are not accepted yet", "AuthAltTypes AuthAltParameters"},
}

// key is a key as it is spelled properly, with its class.
type key struct {
	name  string
	class Class
	text  string
}

// keyNames are all keys by their names in lower case.
var keyNames = once.Value[map[string]key]{Make: func() map[string]key {
	m := map[string]key{}
	for _, g := range keyTable {
		for _, name := range strings.Fields(g.keys) {
			m[strings.ToLower(name)] = key{name, g.class, g.text}
		}
	}
	return m
}}

// Keys returns every known key with its class and the sentence about it, in the order of the table.
func Keys() []Note {
	var notes []Note
	for _, g := range keyTable {
		for _, name := range strings.Fields(g.keys) {
			notes = append(notes, Note{Key: name, Class: g.class, Text: g.text})
		}
	}
	return notes
}

// secret says whether the value of a key must not get into the log.
func secret(name string) bool {
	switch name {
	case "AccountingStoragePass", "JobCompPass", "AuthInfo", "AuthAltParameters", "JobCredentialPrivateKey", "JobCompPassScript":
		return true
	}
	return false
}

// classify looks at values that make a key harmless, or its default.
func classify(k key, value string) (Class, string) {
	v := strings.ToLower(value)
	switch {
	case k.name == "SlurmdParameters" && v == "config_overrides":
		return Honoured, ""
	case k.name == "AllowSpecResourcesUsage" && v != "no" && v != "0" && v != "":
		return Refused, "a job can not leave more or fewer cores to the system than its nodes do"
	}
	switch k.class {
	case Refused:
		switch {
		case v == "" || v == "none" || v == "(null)" || strings.HasSuffix(v, "/none"):
			return Harmless, "it is switched off"
		case k.name == "UsePAM" && (v == "no" || v == "0"):
			return Harmless, "it is switched off"
		case k.name == "PrEpPlugins" && v == "prep/script":
			return Harmless, "it is the default, and there are no scripts"
		}
	case Honoured:
		if k.name == "AccountingStorageEnforce" {
			for _, word := range list(v) {
				switch word {
				case "limits", "limit", "safe", "all", "2", "3":
					return Harmless, "accounts, users and QoS are enforced as it says; limits are stored and shown, and not enforced yet"
				case "nojobs", "nosteps":
					return Harmless, "accounts, users and QoS are enforced as it says; the ledger keeps jobs and steps all the same"
				}
			}
		}
	case Harmless:
		if k.name == "PropagatePrioProcess" && v == "0" {
			return Honoured, ""
		}
	case Mapped:
		switch {
		case k.name == "AuthType" && v != "auth/munge" && v != "auth/slurm" && v != "auth/none":
			return Refused, "known are auth/munge and auth/slurm, for both of which the kernel's word stands"
		case k.name == "AccountingStorageType" && v == "accounting_storage/none":
			return Mapped, "the ledger keeps accounting all the same"
		case k.name == "JobCompType" && v != "jobcomp/none":
			return Harmless, "job ends are published on the bus; no plugin writes them elsewhere"
		}
	}
	return k.class, k.text
}
