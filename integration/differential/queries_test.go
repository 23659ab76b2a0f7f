package differential

import (
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stint/integration/alike"
)

var (
	asked = flag.Int("lines", 1500, "command lines that are generated for TestQueries")
	ask   = flag.String("ask", "", "ask only the command lines in this file")
	kept  = flag.String("queries", "", "folder in which the answers of both sides are left; where it has the real one's to the same lines, only Stint is asked")
	again = flag.Bool("again", false, "compare what is in the folder -queries again, without asking anybody")
)

//go:embed stage.sh
var stageScript string

//go:embed ask.sh
var askScript string

// leastQueries is how many of a hundred command lines have to be answered alike. What is left is named in docs/compatibility.md.
const leastQueries = 96

// queriesConf is the slurm.conf of the cluster that is asked; run is the folder that it may write to.
func queriesConf(run string, compat bool) string {
	text := fmt.Sprintf(`ClusterName=oracle
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
MinJobAge=3600
KillWait=5
MaxArraySize=10001
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_continue
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
PriorityType=priority/basic
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStorageTRES=gres/gpu,gres/gpu:a100
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
GresTypes=gpu
Licenses=matlab:4,ansys:2
NodeName=n[1-2] NodeHostname=n[1-2] NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=16 Boards=1 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000 TmpDisk=10000 Feature=intel,avx2 Weight=10 State=UNKNOWN
NodeName=n[3-4] NodeHostname=n[3-4] NodeAddr=127.0.0.1 Port=[17003-17004] CPUs=8 Boards=1 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=32000 TmpDisk=20000 Feature=amd,gpu,a100 Gres=gpu:a100:4 Weight=20 State=UNKNOWN
PartitionName=compute Nodes=n[1-4] Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP PriorityJobFactor=100
PartitionName=gpu Nodes=n[3-4] MaxTime=12:00:00 DefaultTime=00:30:00 State=UP PriorityTier=5 MaxNodes=2 DefMemPerNode=1000
PartitionName=one Nodes=n1 MaxTime=UNLIMITED DefaultTime=UNLIMITED State=UP
PartitionName=long Nodes=n[1-2] MaxTime=UNLIMITED State=UP AllowGroups=root,alice,bob,carol LLN=YES
PartitionName=small Nodes=n[1-4] MaxNodes=2 MinNodes=1 MaxTime=00:30:00 State=UP MaxCPUsPerNode=4 OverTimeLimit=5
PartitionName=closed Nodes=n[1-4] State=DOWN AllowAccounts=physics,teaching
PartitionName=draining Nodes=n[2-3] State=DRAIN DenyAccounts=teaching
PartitionName=inactive Nodes=n2,n4 State=INACTIVE MaxMemPerCPU=2000
PartitionName=secret Nodes=n4 Hidden=YES State=UP AllowQos=high,low
PartitionName=rooted Nodes=n[1-4] RootOnly=YES DisableRootJobs=NO State=UP GraceTime=60
PartitionName=excl Nodes=n[1-2] OverSubscribe=EXCLUSIVE State=UP
PartitionName=share Nodes=n[1-2] OverSubscribe=FORCE:2 State=UP
`, run)
	if compat {
		text += "SlurmCompat=22.05\n"
	}
	return text
}

const dbdConf = `AuthType=auth/munge
DbdAddr=127.0.0.1
DbdHost=vm
DbdPort=6819
SlurmUser=slurm
DebugLevel=info
LogFile=@RUN@/slurmdbd.log
PidFile=@RUN@/state.oracle/slurmdbd.own.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=13306
StorageUser=slurm
StoragePass=slurmdbpw
StorageLoc=slurm_acct_db
`

// said is what one side made of one command line.
type said struct {
	out, err string
	exit     int
}

// TestQueries brings a real Slurm and Stint to equal clusters with the same jobs and puts the same generated questions to both.
func TestQueries(t *testing.T) {
	home := os.Getenv("STINT_ORACLE")
	if home == "" {
		t.Skip("STINT_ORACLE names no folder with a real Slurm")
	}
	if os.Getuid() != 0 {
		t.Skip("a real Slurm is started by root only")
	}
	lines := queries(rand.New(rand.NewPCG(*seed, 0)), *asked)
	if *ask != "" {
		data, err := os.ReadFile(*ask)
		if err != nil {
			t.Fatal(err)
		}
		lines = strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	}
	at := *kept
	if at == "" {
		at = t.TempDir()
	}
	open(at)
	list := filepath.Join(at, "list")
	if *again {
		if data, err := os.ReadFile(list); err == nil {
			lines = strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		}
	}
	if !*again || *ask != "" {
		text := strings.Join(lines, "\n") + "\n"
		sides := map[string]starter{"real": startReal, "ours": startOurs}
		if data, err := os.ReadFile(list); err == nil && string(data) == text {
			if _, err := os.Stat(filepath.Join(at, "real.rc")); err == nil {
				delete(sides, "real")
			}
		}
		write(t, list, text, 0o644)
		askBoth(t, sides, home, at, list)
	}
	want, got := answers(t, filepath.Join(at, "real"), len(lines)), answers(t, filepath.Join(at, "ours"), len(lines))
	total, same := map[string]int{}, map[string]int{}
	for i, line := range lines {
		command := commandOf(line)
		total[command]++
		if d := unlike(line, want[i], got[i]); d != "" {
			t.Logf("%s\n\t%s", line, d)
			continue
		}
		same[command]++
	}
	sum, all := 0, 0
	for c := range total {
		t.Logf("%s: %d of %d", c, same[c], total[c])
		sum, all = sum+same[c], all+total[c]
	}
	t.Logf("seed %d: %d of %d command lines are answered as the real Slurm does", *seed, sum, all)
	if *ask == "" && sum*100 < all*leastQueries {
		t.Errorf("fewer than %d in a hundred", leastQueries)
	}
}

// commandOf is the program that a line calls.
func commandOf(line string) string {
	for _, w := range strings.Fields(line) {
		switch w {
		case "squeue", "sinfo", "sacct", "scontrol":
			return w
		}
	}
	return line
}

// starter starts a side; call runs a command there, as root or another user.
type starter func(t *testing.T, home string) (call func(who string, args ...string) error, end func(), err error)

// askBoth leaves in at what the sides say to the lines of a list. They are asked at the same time, so that what lasts is as old on either.
func askBoth(t *testing.T, sides map[string]starter, home, at, list string) {
	const work = "/tmp/stint-queries" // always the same: columns cut it, and the real one's answers are kept
	if err := os.Mkdir(work, 0o777); err != nil {
		t.Fatalf("%v: another run is under way, or one was killed", err)
	}
	t.Cleanup(func() { os.RemoveAll(work) })
	write(t, filepath.Join(work, "stage.sh"), stageScript, 0o755)
	write(t, filepath.Join(work, "ask.sh"), askScript, 0o755)
	os.Chmod(work, 0o777)
	user, own := filepath.Join(work, "user"), map[string]string{"real": filepath.Join(work, "real"), "ours": filepath.Join(work, "user")} // users' files
	for _, dir := range own {
		os.Mkdir(dir, 0o777)
		os.Chmod(dir, 0o777)
	}
	failed := make(chan error, 2)
	calls := map[string]func(who string, args ...string) error{}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for name, start := range sides {
		call, end, err := start(t, home)
		if end != nil {
			ends = append(ends, end)
		}
		if err != nil {
			t.Fatal(err)
		}
		calls[name] = call
	}
	if calls["real"] != nil { // in its namespace only: paths are the same on both sides
		if err := calls["real"]("root", "mount", "--bind", own["real"], user); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range calls {
		go func() {
			if err := call("root", "bash", filepath.Join(work, "stage.sh"), user); err != nil {
				failed <- err
				return
			}
			failed <- call("alice", "bash", filepath.Join(work, "ask.sh"), list, filepath.Join(user, "answers"))
		}()
	}
	var wrong error
	for range calls {
		if err := <-failed; err != nil {
			wrong = err
		}
	}
	if wrong != nil {
		t.Fatal(wrong)
	}
	for name, dir := range own {
		if calls[name] == nil {
			continue
		}
		for _, kind := range []string{"", ".err", ".rc"} {
			data, err := os.ReadFile(filepath.Join(dir, "answers"+kind))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(at, name+kind), string(data), 0o644)
		}
	}
}

// startReal starts the real one; call runs a command there, as root or another user.
func startReal(t *testing.T, home string) (call func(who string, args ...string) error, end func(), err error) {
	base := t.TempDir()
	dir := filepath.Join(base, "oracle")
	for _, f := range []string{"oracle", "start"} {
		data, err := os.ReadFile(filepath.Join(home, f))
		if err != nil {
			return nil, nil, err
		}
		write(t, filepath.Join(dir, f), string(data), 0o755)
	}
	etc := filepath.Join(dir, "etc", "queries")
	write(t, filepath.Join(etc, "slurm.conf"), queriesConf("@RUN@", false), 0o644)
	write(t, filepath.Join(etc, "slurmdbd.conf"), dbdConf, 0o600)
	write(t, filepath.Join(etc, "gres.conf"), gresConf("@RUN@/dev"), 0o644)
	write(t, filepath.Join(etc, "cgroup.conf"), "CgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n", 0o644)
	open(base)
	oracle := func(user string, args ...string) error {
		cmd := exec.Command(filepath.Join(dir, "oracle"), append([]string{"queries"}, args...)...)
		cmd.Env = append(clean(os.Environ()), "ORACLE_RUN="+filepath.Join(base, "run"), "USER="+user, "TZ=UTC", "LANG=C")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("oracle %v: %w\n%s", args, err, out)
		}
		return nil
	}
	end = func() { oracle("root", "down") }
	call = func(who string, args ...string) error {
		if who == "root" {
			return oracle(who, append([]string{"run"}, args...)...)
		}
		return oracle(who, append([]string{"as"}, args...)...)
	}
	return call, end, oracle("root", "up", "queries", "4")
}

// startOurs starts Stint.
func startOurs(t *testing.T, _ string) (call func(who string, args ...string) error, end func(), err error) {
	tools := *built
	if tools == "" {
		tools = build(t)
	}
	base := t.TempDir()
	open(base)
	conf := filepath.Join(base, "etc", "slurm.conf")
	write(t, conf, queriesConf(base, true), 0o644)
	dev := filepath.Join(base, "dev")
	for i := range 4 {
		write(t, filepath.Join(dev, "nvidia"+strconv.Itoa(i)), "", 0o644)
	}
	write(t, filepath.Join(base, "etc", "gres.conf"), gresConf(dev), 0o644)
	write(t, filepath.Join(base, "etc", "cgroup.conf"), "ConstrainCores=no\nConstrainRAMSpace=no\n", 0o644)
	dir := filepath.Join(base, "c")
	env := append(clean(os.Environ()), "STINT_DIR="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "TZ=UTC", "LANG=C")
	run := func(name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = env, base
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
		}
		return nil
	}
	stint := filepath.Join(tools, "stint")
	call = func(who string, args ...string) error {
		if who != "root" {
			args = append([]string{"setpriv", "--reuid=" + who, "--regid=" + who, "--init-groups", "env", "HOME=/home/" + who, "USER=" + who, "LOGNAME=" + who}, args...)
		}
		return run(args[0], args[1:]...)
	}
	return call, func() { run(stint, "down", "--kill") }, run(stint, "up", "--detach", "--config", conf, "--virtual")
}

// answers reads what ask.sh left.
func answers(t *testing.T, file string, n int) []said {
	list := make([]said, n)
	for kind, put := range map[string]func(*said, string){"": func(s *said, text string) { s.out = text }, ".err": func(s *said, text string) { s.err = text }} {
		data, err := os.ReadFile(file + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(data), "\x01")[1:] {
			number, text, _ := strings.Cut(part, "\n")
			i, err := strconv.Atoi(number)
			if err != nil || i < 1 || i > n {
				t.Fatalf("%s%s: answer %q", file, kind, number)
			}
			put(&list[i-1], text)
		}
	}
	data, err := os.ReadFile(file + ".rc")
	if err != nil {
		t.Fatal(err)
	}
	codes := strings.Fields(string(data))
	if len(codes) != n {
		t.Fatalf("%s: %d exit codes of %d lines", file, len(codes), n)
	}
	for i := range list {
		list[i].exit, _ = strconv.Atoi(codes[i])
	}
	return list
}

// partial is a time that a column may have cut off, or put close to another.
var partial = regexp.MustCompile(`20\d\d-\d\d?(-\d?\d?)?(T[\d:]*| \d\d:\d\d:\d\d)?`)

// scheduler is which of Slurm's two began a job, a matter of chance; hostname is where the caller sits.
var (
	priorities = regexp.MustCompile(`42949\d*|0\.99998\d*`) // of first come, first served
	scheduler  = regexp.MustCompile(`\bScheduler=\S+`)
	began      = regexp.MustCompile(` *\bSched(M|B)[A-Za-z]*(,[A-Za-z]*)?\+?`) // the same in sacct's Flags
	ranS       = regexp.MustCompile(`\bSecsPreSuspend=\d+`)                    // how long a job ran before it was suspended
	cpuTimes   = regexp.MustCompile(`(?i)\bcputime|\bresvcpu`)                 // of lines that ask for durations many times over
	lasted     = regexp.MustCompile(`\b(\d+-)?\d\d:\d\d:\d\d\b`)
	hostname   = func() *regexp.Regexp {
		name, _ := os.Hostname()
		return regexp.MustCompile(`\b(localhost|` + regexp.QuoteMeta(name) + `)\b *`)
	}()
)

// load says that a line asks sinfo for figures of the machine, of which a range may be one. grouped are columns of sinfo, byPartition those that put the
// rows of partitions into an order; the others have that of threads, too.
var (
	load        = regexp.MustCompile(`(?i)sinfo.*(%[.\d]*[eO]|freemem|cpusload|%all|\ball\b)`)
	grouped     = regexp.MustCompile(`sinfo .*-[oO] |SINFO_FORMAT`)
	byPartition = regexp.MustCompile(`%[.\d]*[PR]|(?i:partition)`)
)

// plugins is what scontrol show config says of a plugin that need not be installed.
var plugins = regexp.MustCompile(`(?m)^(MPI Plugins Configuration:|PMIx.*)\n\n?`)

// unordered are lines whose answer comes in the order in which the real one's threads happened to end.
var unordered = regexp.MustCompile(`sinfo\b.* -\w*N|sinfo\b.* -S '[-+]?[^PR]|SINFO_SORT=[-+]?[^PR]`)

var digit = regexp.MustCompile(`\d`)

// moment are what lines ask for that is of the moment or of the side: loads, free memory, priorities, process ids.
var moment = regexp.MustCompile(`(?i)%[.\d#]*[pQ]\b|%[.\d#]*[eO]|%all|\bpriority|alloc-?sid|pendingtime|\bfreemem|cpusload|\b(elapsed|cputime|reserved|resvcpu|planned\w*)raw|resvcpuraw|dbindex|\ball\b|-v\b`)

// unlike says what is not alike in two answers to a line, "" if nothing is.
func unlike(line string, want, got said) string {
	if want.exit != got.exit {
		return fmt.Sprintf("exit %d, want %d: %s | %s", got.exit, want.exit, strings.TrimSpace(got.err), strings.TrimSpace(want.err))
	}
	r := alike.Rules{
		Line: func(s string) string {
			s = scheduler.ReplaceAllString(s, "Scheduler=@SCHEDULER")
			s = ranS.ReplaceAllString(s, "SecsPreSuspend=9")
			s = began.ReplaceAllString(s, "@SCHEDULER")
			if cpuTimes.MatchString(line) {
				s = lasted.ReplaceAllString(s, "00:00:00")
			}
			s = priorities.ReplaceAllStringFunc(s, func(m string) string { return digit.ReplaceAllString(m, "9") })
			s = hostname.ReplaceAllString(s, "@HOST")
			return partial.ReplaceAllStringFunc(s, func(m string) string { return digit.ReplaceAllString(m, "9") })
		},
		Figures: moment.MatchString(line), Ranges: load.MatchString(line),
		Unordered: unordered.MatchString(line) || grouped.MatchString(line) && !byPartition.MatchString(line),
	}
	want.out, got.out = plugins.ReplaceAllString(want.out, ""), plugins.ReplaceAllString(got.out, "")
	if r.Differ(want.out, got.out) == "" {
		return ""
	}
	list := r.Differing(want.out, got.out)
	if len(list) == 0 {
		list = []string{r.Differ(want.out, got.out)}
	}
	return strings.Join(slices.Clip(list), "\n\t")
}
