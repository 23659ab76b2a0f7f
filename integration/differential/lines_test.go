package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The words that command lines are made of.
var (
	jobFields = strings.Fields(`Account AccrueTime admin_comment AllocSid ArrayJobID ArrayTaskID AssocID BatchFlag BatchHost BoardsPerNode BurstBuffer
		BurstBufferState Cluster ClusterFeature Command Comment Contiguous Container Cores CoreSpec CPUFreq cpus-per-task cpus-per-tres Deadline DelayBoot Dependency
		DerivedEC EligibleTime EndTime ExcNodes exit_code Feature Gres GroupID GroupName HetJobID HetJobIDSet HetJobOffset JobArrayID JobID LastSchedEval Licenses MaxCPUs
		MaxNodes MCSLabel mem-per-tres MinCpus MinMemory MinTime MinTmpDisk Name Network Nice NodeList Nodes NTPerBoard NTPerCore NTPerNode NTPerSocket NumCPUs NumNodes
		NumTasks Origin OriginRaw OverSubscribe Partition PreemptTime PendingTime Prefer Priority PriorityLong Profile QOS Reason ReasonList Reboot ReqNodes ReqSwitch Requeue
		Reservation ResizeTime RestartCnt SchedNodes SCT Shared SiblingsActive SiblingsViable Sockets SPerBoard StartTime State StateCompact StdErr StdIn StdOut SubmitTime
		system_comment Threads TimeLeft TimeLimit TimeUsed Tres tres-alloc tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-task UserID UserName
		Wait4Switch WCKey WorkDir`)
	nodeFields = strings.Fields(`Active_Features AllocMem AllocNodes Available Cluster Comment Cores CPUs CPUsLoad CPUsState Defaultmemory DefaultTime Disk Extra Features
		features_act FreeMem Gres GresUsed Groups MaxCPUsPerNode Memory NodeAddr NodeAI NodeAIOT NodeHost NodeList Nodes OverSubscribe Partition PartitionName Port PreemptMode
		PriorityJobFactor PriorityTier Reason Root Share Size SocketCoreThread Sockets StateCompact StateLong StateComplete Threads Time TimeStamp User UserLong Version Weight`)
	rowFields = strings.Fields(`Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID Cluster Comment CPUTime CPUTimeRAW DerivedExitCode Elapsed ElapsedRaw Eligible End
		ExitCode Flags GID Group JobID JobIDRaw JobName Layout MCSLabel NCPUS NNodes NodeList NTasks Partition Priority QOS QOSRAW Reason ReqCPUS ReqMem ReqNodes ReqTRES
		Reservation ReservationId Start State Submit Suspended SubmitLine SystemComment Timelimit TimelimitRaw UID User WCKey WCKeyID WorkDir`)
	states = strings.Fields(`R PD S CG CD F CA TO NF PR BF OOM all running pending suspended completed failed cancelled COMPLETING Running,pending r,pd bogus X timeout,F CF RV SE`)
	users  = strings.Fields(`alice bob carol root nobodyelse 2001 2002,alice alice,bob 0 dave`)
	places = strings.Fields(`compute gpu one long small closed secret nosuch compute,gpu one,nosuch excl,share compute* draining`)
	hosts  = strings.Fields(`n1 n2 n3 n4 n[1-2] n[1,3] n[1-4] n2,n1 nosuch n[1-9] n1,n1`)
	titles = strings.Fields(`done run1 gpujob multi bobjob arr held steps nosuch multi,arr over[1] train features`)
)

type maker struct{ *rand.Rand }

func (r maker) of(list []string) string { return list[r.IntN(len(list))] }

// some is up to n of a list, joined.
func (r maker) some(list []string, n int, by string) string {
	var words []string
	for range 1 + r.IntN(n) {
		words = append(words, r.of(list))
	}
	return strings.Join(words, by)
}

func (r maker) chance(percent int) bool { return r.IntN(100) < percent }

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// durations are letters whose values are durations of the moment: cut, they cannot be compared.
const durations = "MLpQ"

// letters is a format of -o.
func (r maker) letters(all string) string {
	if r.chance(3) {
		return r.of([]string{"%all", "%ALL", "", "%", "%%", "hello", "%9", "%i%", "%.i", "%-8i", "%.18", "%i %?", `%i\n%j`, "%#i|%#.20j", "%.#8i|%#P|"})
	}
	var b strings.Builder
	between := r.of([]string{" ", "|", ",", "", " | ", ":", "=", "%%", "\t", "é"})
	for i := range 1 + r.IntN(6) {
		if i > 0 {
			b.WriteString(between)
		}
		c := all[r.IntN(len(all))]
		b.WriteByte('%')
		if r.chance(40) && !strings.ContainsRune(durations, rune(c)) {
			b.WriteString(r.of([]string{".", "", "", "."}))
			fmt.Fprint(&b, r.of([]string{"1", "2", "5", "8", "10", "12", "18", "20", "30", "64", "0", "08"}))
		}
		b.WriteByte(c)
	}
	return b.String()
}

// named is a format of -O.
func (r maker) named(fields []string) string {
	var words []string
	for range 1 + r.IntN(5) {
		w := r.of(fields)
		switch r.IntN(8) {
		case 0:
			w = strings.ToUpper(w)
		case 1:
			w = strings.ToLower(w)
		}
		if r.chance(60) && !strings.HasPrefix(strings.ToLower(w), "time") {
			w += ":" + r.of([]string{"", ".", "5", "8", ".8", "12", "30", ".30", "64", "|", " ", "10|", ".10|", "25#x", "0", ".", "x", "40 "})
		}
		words = append(words, w)
	}
	if r.chance(3) {
		words = append(words, r.of([]string{"NoSuch", "", "jobid:", ":", "all", "ALL", "NoSuch:5", " JobID"}))
	}
	return strings.Join(words, ",")
}

// keys is a value of -S.
func (r maker) keys(all string) string {
	var words []string
	for range 1 + r.IntN(3) {
		words = append(words, r.of([]string{"", "", "-", "+"})+string(all[r.IntN(len(all))]))
	}
	return strings.Join(words, ",")
}

func (r maker) ids() string {
	return r.some([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "22", "23", "24", "25", "30", "35", "99",
		"5_3", "11_1", "11_2", "11_3", "11_[1-4]", "11_9", "23_0", "23_[0-10]", "99_1"}, 3, ",")
}

func (r maker) squeue() string {
	env, words := "", []string{"squeue"}
	if r.chance(15) {
		env = r.of([]string{"SQUEUE_FORMAT=" + quote(r.letters("ijtTuPCDN")), "SQUEUE_FORMAT2=" + quote(r.named(jobFields)), "SQUEUE_SORT=" + r.keys("ijPtTu"), "SQUEUE_STATES=" + r.of(states),
			"SQUEUE_USERS=" + r.of(users), "SQUEUE_PARTITION=" + quote(r.of(places)), "SQUEUE_ACCOUNT=physics", "SQUEUE_NAMES=" + quote(r.of(titles)), "SQUEUE_QOS=high", "SQUEUE_ARRAY=1",
			"SQUEUE_ALL=1", "SQUEUE_PRIORITY=1", "SQUEUE_LICENSES=matlab", "SLURM_TIME_FORMAT=%s", "SLURM_TIME_FORMAT=" + quote("%Y-%m-%d %H:%M:%S"), "SLURM_TIME_FORMAT=standard",
			"SLURM_TIME_FORMAT=%F", "SLURM_BITSTR_LEN=" + r.of([]string{"0", "10", "20", "64", "200", "x"}), "SQUEUE_STATES=all SQUEUE_SORT=-i"}) + " "
	}
	add := func(percent int, w string) {
		if r.chance(percent) {
			words = append(words, w)
		}
	}
	add(25, r.of([]string{"-h", "--noheader"}))
	add(10, r.of([]string{"-a", "--all", "--hide"}))
	add(12, r.of([]string{"-r", "--array"}))
	add(10, r.of([]string{"-l", "--long"}))
	add(5, r.of([]string{"-P", "--priority"}))
	add(4, "--me")
	add(3, r.of([]string{"--local", "--federation", "--sibling", "--noconvert", "-M oracle", "-M nosuch", "--start"}))
	add(15, "-t "+r.some(states, 2, ","))
	add(12, "-u "+r.of(users))
	add(10, "-p "+quote(r.of(places)))
	add(12, "-j "+quote(r.ids()))
	add(6, "-n "+quote(r.of(titles)))
	add(5, "-A "+r.of([]string{"physics", "teaching", "physics,research", "nosuch", "root"}))
	add(5, "-q "+r.of([]string{"normal", "high", "low,high", "nosuch"}))
	add(6, "-w "+quote(r.of(hosts)))
	add(3, "-L "+r.of([]string{"matlab", "ansys", "matlab,ansys", "nosuch"}))
	add(2, r.of([]string{"-R nores", "-v", "extra", "--bogus", "-Z", "-o", "-j", "-j abc", "-S", "-t", "-i", "-s", "-s 7", "-j 1,abc", "--jobs=7", "--jo 7", "-u", "--name=run1", "--partit=gpu"}))
	add(30, "-S "+quote(r.keys("ijPtTuUCDgGcmlqaSVeyfMkKzNnoXrRvZbABEFHIJLOpQwWxY")))
	switch r.IntN(5) {
	case 0, 1:
		words = append(words, "-o "+quote(r.letters("aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ")))
	case 2, 3:
		words = append(words, "-O "+quote(r.named(jobFields)))
	}
	return env + strings.Join(words, " ")
}

func (r maker) sinfo() string {
	env, words := "", []string{"sinfo"}
	if r.chance(12) {
		env = r.of([]string{"SINFO_FORMAT=" + quote(r.letters("PNtTDcmf")), "SINFO_PARTITION=" + quote(r.of(places)), "SINFO_SORT=" + r.keys("PNtD"), "SINFO_ALL=1", "SLURM_TIME_FORMAT=%s",
			"SLURM_TIME_FORMAT=" + quote("%Y-%m-%d %H:%M:%S")}) + " "
	}
	add := func(percent int, w string) {
		if r.chance(percent) {
			words = append(words, w)
		}
	}
	add(25, r.of([]string{"-h", "--noheader"}))
	add(10, r.of([]string{"-a", "--all", "--hide"}))
	add(20, r.of([]string{"-N", "--Node", "-N -l", "-Nel"}))
	add(12, r.of([]string{"-l", "--long", "-s", "--summarize", "-R", "-R -l", "-Rh"}))
	add(8, r.of([]string{"-e", "--exact"}))
	add(5, r.of([]string{"-d", "-r", "--dead", "--responding", "-M oracle", "--noconvert"}))
	add(15, "-p "+quote(r.of(places)))
	add(12, "-n "+quote(r.of(hosts)))
	add(12, "-t "+quote(r.some(strings.Fields("idle alloc mix drain drained draining down mixed allocated all bogus resv maint unk comp fail idle~ drain&idle"), 2, ",")))
	add(2, r.of([]string{"-T", "extra", "--bogus", "-o", "-S", "-i", "-p", "-F", "--federation"}))
	add(25, "-S "+quote(r.keys("PRtTNDcmwalPtNPN")))
	switch r.IntN(5) {
	case 0, 1:
		words = append(words, "-o "+quote(r.letters("aAbBcCdDeEfFgGhHIlLmMnNoOpPrRsStTuUvwXYzZ")))
	case 2, 3:
		words = append(words, "-O "+quote(r.named(nodeFields)))
	}
	return env + strings.Join(words, " ")
}

func (r maker) sacct() string {
	env, words := "", []string{"sacct"}
	if r.chance(10) {
		env = r.of([]string{"SACCT_FORMAT=" + r.some(rowFields, 4, ","), "SLURM_TIME_FORMAT=%s", "SLURM_TIME_FORMAT=" + quote("%Y-%m-%d %H:%M:%S")}) + " "
	}
	add := func(percent int, w string) {
		if r.chance(percent) {
			words = append(words, w)
		}
	}
	add(30, "-a")
	add(40, "-X")
	add(15, "-n")
	add(25, r.of([]string{"-P", "-p", "--parsable", "--parsable2", "-P --delimiter=" + quote(r.of([]string{";", " ", "::", "\t"}))}))
	add(45, "-j "+quote(r.ids()))
	add(15, "-u "+r.of(users))
	add(8, "-A "+r.of([]string{"physics", "teaching", "physics,research", "nosuch"}))
	add(10, "-r "+quote(r.of(places)))
	add(10, "-s "+r.some(states, 2, ","))
	add(8, "-N "+quote(r.of(hosts)))
	add(10, r.of([]string{"-S now-1hours", "-S 00:00", "-S now-1days -E now", "-E now", "-S 2020-01-01", "-S 2020-01-01 -E 2021-01-01", "-S bogus", "-S tomorrow", "-S now+1hours", "-S midnight"}))
	add(6, "--name="+quote(r.of(titles)))
	add(5, "-q "+r.of([]string{"normal", "high", "low,high", "nosuch"}))
	add(6, r.of([]string{"-D", "-L", "-M oracle", "--noconvert", "--units=M", "--units=G", "-i 1-2", "-I 1-4", "-k 10", "-k 10 -K 60", "-W proj", "-g alice", "-x 1", "-T", "--local", "--array"}))
	add(3, r.of([]string{"-b", "-l", "--bogus", "extra", "-Z", "-o", "-e", "-V", "--brief"}))
	if r.chance(60) {
		var fields []string
		for range 1 + r.IntN(6) {
			f := r.of(rowFields)
			if r.chance(40) {
				f += "%" + r.of([]string{"5", "10", "20", "30", "-20", "-8", "40", "0", "60", "-"})
			}
			fields = append(fields, f)
		}
		if r.chance(2) {
			fields = append(fields, r.of([]string{"NoSuch", "", "jobid%x"}))
		}
		words = append(words, "-o "+strings.Join(fields, ","))
	}
	return env + strings.Join(words, " ")
}

func (r maker) hostlist() string {
	var words []string
	for range 1 + r.IntN(4) {
		w := r.of([]string{"n", "rack", "a-b", "x1y", "n0", "gpu-", ""})
		switch r.IntN(6) {
		case 0:
			w += fmt.Sprint(r.IntN(30))
		case 1:
			w += fmt.Sprintf("[%d-%d]", r.IntN(5), 5+r.IntN(8))
		case 2:
			w += fmt.Sprintf("[%02d-%02d,%d]", r.IntN(5), 5+r.IntN(12), r.IntN(100))
		case 3:
			w += fmt.Sprintf("[%03d-%03d]-ib", r.IntN(5), 5+r.IntN(8))
		case 4:
			w += fmt.Sprintf("%dx[%d-%d]", r.IntN(3), r.IntN(3), 3+r.IntN(3))
		case 5:
			w += fmt.Sprintf("[%d-%d]c[%d-%d]", r.IntN(2), 2+r.IntN(2), r.IntN(2), 2+r.IntN(2))
		}
		words = append(words, w)
	}
	return quote(strings.Join(words, ","))
}

func (r maker) scontrol() string {
	words := []string{"scontrol"}
	if r.chance(40) {
		words = append(words, r.of([]string{"-o", "-d", "-dd", "-a", "--hide", "-o -d", "--oneliner", "--details", "-Q", "-F", "--all", "-M oracle"}))
	}
	job := r.of([]string{"1", "2", "3", "4", "5", "5_3", "6", "7", "8", "9", "10", "11", "12", "11_1", "11_2", "11_3", "11_5", "13", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26",
		"27", "28", "29", "30", "31", "32", "33", "34", "35", "36", "37", "38", "39", "99", "", "11_[1-2]", "7,8", "abc", "11_99", "23_5", "24_0", "1.0", "7.batch"})
	what := r.of([]string{"show job " + job, "show job " + job, "show job " + job, "show jobs", "show job=" + job, "show node " + quote(r.of(hosts)), "show node", "show nodes", "show node=n1",
		"show partition " + quote(r.of(places)), "show partition", "show part", "show hostnames " + r.hostlist(), "show hostlist " + r.hostlist(), "show hostlistsorted " + r.hostlist(),
		"show hostname " + r.hostlist(), "show lic", "show licenses matlab", "show licenses nosuch", "show step " + job, "show steps", "ping", "version", "completing", "show topology", "show aliases n1", "show daemons",
		"show res", "show reservation nosuch", "show federation", "show bogus", "show", "bogus", "sho jo 7", "show j 7", "show n n2", "show p gpu", "show jobs 7 8", "show node n1 n2",
		"show config | grep -E '^(Max|Def|Kill|Min|Sched|Sel|Prio|Ret|Acc|Job|Task|Proctrack)'", "show config | grep -iE '^[b-h]'", "show config | grep -iE '^[i-p]'", "show config | grep -iE '^[q-z]'", "show hostnames n1 n2"})
	return strings.Join(append(words, what), " ")
}

// usual are what everybody types.
var usual = []string{"squeue", "squeue -l", "squeue -r", "squeue --me", "squeue -u alice,bob", "squeue -t all", "squeue -t all -S i -o '%i %t %T'", "squeue -o %all", "squeue -t all -o %all", "squeue -a -t PD,R -S P,-t,u",
	"squeue --start", "squeue -O jobid,name,state,timeused,reasonlist", "squeue -O 'JobID:,Name: ,State:|'", "squeue -j 7,8,11_1", "squeue -h -o '%i;%j;%r'", "squeue -O ALL", "sinfo", "sinfo -Nel", "sinfo -R", "sinfo -s",
	"sinfo -l", "sinfo -N", "sinfo -o '%P %a %l %D %t %N'", "sinfo -o '%n %f %G %C'", "sinfo -o %all", "sinfo -O ALL", "sinfo -h -o '%R %F %C'", "sinfo -t drain -o '%n %E %u %H'", "sinfo -eO nodehost,cpusstate,memory,gres",
	"sacct", "sacct -a -X", "sacct -j 7", "sacct -a -o jobid,jobname%30,state%20,elapsed,exitcode", "sacct -aXP -o jobid,submit,start,end,state", "sacct -b -a", "scontrol show job", "scontrol -o show job", "scontrol -d show job",
	"scontrol -dd show job 9", "scontrol show node", "scontrol -o show nodes", "scontrol -d show node n3", "scontrol show partition", "scontrol -o show part", "scontrol show hostnames 'n[1-3,7]'", "scontrol show hostlistsorted n4,n1,n2",
	"scontrol show config", "scontrol completing", "scontrol show lic", "scontrol show steps", "scontrol show topology", "scontrol ping", "squeue -t R -o '%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R'", "squeue -s", "squeue -n run1,arr",
	"squeue -o '%.10i|%.50j|%Z'", "squeue -t PD -o '%i %r %R %S %E'", "sinfo -p gpu -N -O 'NodeList:10,Gres:20,GresUsed:30,StateLong'", "squeue -S bogus", "squeue -S ,", "squeue -o '%i %.2t %-5j'", "squeue -P"}

// queries makes n command lines, the usual ones first, none twice.
func queries(rnd *rand.Rand, n int) []string {
	r := maker{rnd}
	lines := append([]string(nil), usual...)
	have := map[string]bool{}
	for len(lines) < n {
		l := []func() string{r.squeue, r.squeue, r.squeue, r.sinfo, r.sinfo, r.sacct, r.scontrol}[r.IntN(7)]()
		if !have[l] {
			have[l] = true
			lines = append(lines, l)
		}
	}
	return lines[:max(min(n, len(lines)), 0)]
}
