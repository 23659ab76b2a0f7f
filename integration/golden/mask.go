package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stint/events"
)

// idsFrom: where job ids are not the recorded ones they are beyond it, and differ from the recorded by about as much.
const idsFrom, idsDrift = 3000, 900

// lateFrom: the scenario of final states was recorded behind so many jobs, and that of enforcement behind about as many.
const lateFrom, lateBy = 12340, 12290

// masks are what differs between two clusters that do the same, and is the same on both sides after it.
var masks = []struct {
	like *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\b`), "@TIME"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ \d\d:\d\d:\d\d \d{4}\b`), "@TIME"},
	{regexp.MustCompile(`\b(17|18)\d{8}\b`), "@TIME"},                       // seconds since 1970
	{regexp.MustCompile(`\b\d{4}/\d\d/\d\d \d\d[.:]\d\d[.:]\d\d`), "@TIME"}, // SLURM_TIME_FORMAT of the scenarios
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "@TIME"},
	{regexp.MustCompile(`^(\d+(?:_\S+)?) \d\d:\d\d:\d\d$`), "$1 @TIME"}, // of today, relative
	{regexp.MustCompile(`\b\d\d\.\d\d\.\d+(-\d+)?\b`), "@VERSION"},
	{regexp.MustCompile(`\bslurm(-wlm)? @VERSION`), "slurm @VERSION"},
	{regexp.MustCompile(`AllocNode:Sid=\S+`), "AllocNode:Sid=@HOST:@PID"},
	{regexp.MustCompile(`\bCPULoad=\S+`), "CPULoad=@LOAD"},
	{regexp.MustCompile(`\bFreeMem=\S+`), "FreeMem=@FREE"},
	{regexp.MustCompile(`\bOS=.*?( RealMemory=| *$)`), "OS=@OS$1"},
	{regexp.MustCompile(`\bPort=\d+`), "Port=@PORT"},
	{regexp.MustCompile(`^(FirstJobId|NEXT_JOB_ID) +=.*`), "$1=@ID"},        // of this comparison's own making
	{regexp.MustCompile(`^SchedulerType +=.*`), "SchedulerType=@SCHEDULER"}, // so is this
	{regexp.MustCompile(`^(PluginDir|Slurmctld\w+File|Slurmd\w+File|SlurmdSpoolDir|StateSaveLocation|SLURM_CONF) +=.*`), "$1=@PATH"},
	{regexp.MustCompile(`^(\d+: )?SLURM_CONF=.*`), "${1}SLURM_CONF=@PATH"}, // of tasks with srun -l too
	{regexp.MustCompile(`^(\d+: )?SLURM_TASK_PID=\d+$`), "${1}SLURM_TASK_PID=@PID"},
	{regexp.MustCompile(`^(\d+: )?(SLURM_SRUN_COMM|SLURM_STEP_LAUNCHER)_PORT=\d+$`), "$1${2}_PORT=@PORT"},
	{regexp.MustCompile(`^(\d+: )?(SLURM_SRUN_COMM_HOST|SLURM_LAUNCH_NODE_IPADDR)=\d+\.\d+\.\d+\.\d+$`), "$1$2=@HOST"},
	{regexp.MustCompile(`^(\d+: )?SLURM_WORKING_CLUSTER=(\S+):\d+\.\d+\.\d+\.\d+:\d+:`), "${1}SLURM_WORKING_CLUSTER=$2:@HOST:@PORT:"},
	{regexp.MustCompile(`\bPriority=[1-9]\d*`), "Priority=@PRIORITY"},
}

// fields of a command's own kind that tell of the machine and the moment, by the row's bare name: numbers there are any number.
// ranges are such fields over several nodes.
var (
	ranges = regexp.MustCompile(`^(fmt-[Oe]|long-(CPUsLoad|FreeMem))$`)
	figure = regexp.MustCompile(`\b\d+(\.\d+)?(-\d+(\.\d+)?)?\b`)
)

// unordered are commands whose lines come in the order in which the real one's threads happened to end: sinfo by node, or sorted by what
// several partitions have in common; what two nodes of a step say at once.
var unordered = regexp.MustCompile(`\bsinfo\b.* -N\b|\bsinfo -N\b|\bsinfo -S -?[nN]$`)
var unorderedRow = regexp.MustCompile(`^final-states/026-out-CS$`)

var anyNumber = regexp.MustCompile(`^(squeue-requeued|fmt-[pQOeP]|long-(Priority|PriorityLong|PendingTime|CPUsLoad|FreeMem|AllocSid|CPULoad|All)|fmt-w2|fmt-all|field-(DBIndex|Priority|CPUTimeRAW|ElapsedRaw|ResvCPURAW))$`)

// cpuTimes are rows of how long processors worked, which a short step may not show at all.
var (
	cpuTimes = regexp.MustCompile(`^field-(SystemCPU|TotalCPU|UserCPU)$`)
	cpuTime  = regexp.MustCompile(`\b\d\d:\d\d(\.\d{3}|:\d\d)\b`)
)

// earlier are rows of all jobs of a user, where the recorded cluster still knew those of other scenarios.
var earlier = regexp.MustCompile(`^squeue-(all|all-fmt|F|CD)$`)

// ofJob is a record of sacct about a job.
var ofJob = regexp.MustCompile(`(?m)^\d+(_\d+)? .*\n?`)

// withoutEarlier leaves out the lines of jobs before the scenario of final states.
func withoutEarlier(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if m := leading.FindStringSubmatch(line); m != nil {
			if id, _ := strconv.Atoi(m[1]); id <= lateFrom {
				continue
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

var leading = regexp.MustCompile(`^\s*(\d+)`)

// differ compares what was printed and returns the first line that differs, "" if none does.
func differ(r *row, real, ours string) string {
	if r.Group == "sdiag" {
		real, ours = figures(real), figures(ours)
	}
	if cpuTimes.MatchString(r.bare()) {
		real, ours = cpuTime.ReplaceAllString(real, "@CPU"), cpuTime.ReplaceAllString(ours, "@CPU")
	}
	a, b := strings.Split(strings.TrimRight(real, "\n"), "\n"), strings.Split(strings.TrimRight(ours, "\n"), "\n")
	if r.Truncated && len(a) > 1 {
		a = a[:len(a)-1] // the last may be cut within
		b = b[:min(len(a), len(b))]
	}
	if host, err := os.Hostname(); err == nil && r.bare() == "long-AllocNodes" {
		for i := range b {
			b[i] = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(b[i], "localhost@HOST")
		}
		for i := range a {
			a[i] = strings.ReplaceAll(a[i], "localhost", "localhost@HOST")
		}
	}
	if unordered.MatchString(r.Command) || unorderedRow.MatchString(r.Group+"/"+r.Name) {
		for _, lines := range [][]string{a, b} {
			for i := range lines {
				lines[i] = mask(r.Group, lines[i])
			}
		}
		slices.Sort(a)
		slices.Sort(b)
	}
	ids := map[string]string{}
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b):
			return fmt.Sprintf("line %d is missing: %q", i+1, a[i])
		case i >= len(a):
			return fmt.Sprintf("line %d is too much: %q", i+1, b[i])
		}
		if !sameLine(r, mask(r.Group, a[i]), mask(r.Group, b[i]), ids) {
			return fmt.Sprintf("line %d: real %q, ours %q", i+1, strings.TrimRight(a[i], " "), strings.TrimRight(b[i], " "))
		}
	}
	return ""
}

// differing returns the lines that only one side has, the real one's behind a minus and ours behind a plus, at most thirty of them.
func differing(r *row, real, ours string) (list []string) {
	a, b := strings.Split(strings.TrimRight(real, "\n"), "\n"), strings.Split(strings.TrimRight(ours, "\n"), "\n")
	if len(a)*len(b) > 1<<20 {
		return nil
	}
	same := func(i, j int) bool {
		return sameLine(r, mask(r.Group, a[i]), mask(r.Group, b[j]), map[string]string{})
	}
	common := make([][]int, len(a)+1) // of a[i:] and b[j:]
	common[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); same(i, j) {
				common[i][j] = max(common[i][j], common[i+1][j+1]+1)
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && common[i][j] == common[i+1][j+1]+1 && same(i, j):
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			list = append(list, "- "+strings.TrimRight(a[i], " "))
			i++
		default:
			list = append(list, "+ "+strings.TrimRight(b[j], " "))
			j++
		}
		if len(list) == 30 {
			return append(list, "…")
		}
	}
	return list
}

// settling is the mark of a node that was made up again and has not answered yet.
var settling = regexp.MustCompile(`\b(idle|drain|drained|down|mix|mixed)\*`)

// someNode is one of the nodes where a job ended that filled none of them: the recorded jobs lasted long enough to fill n1, ours do not. spooled is a
// script as a shell names it.
var (
	someNode = regexp.MustCompile(`\bn[1-4]\b`)
	cutStep  = regexp.MustCompile(`^(3\d{3}_\d+)\.(bat|batc)\+`)
	spooled  = regexp.MustCompile(`\S+/slurm_script:`)
)

func mask(group, line string) string {
	if group == "sacct" { // longer ids leave less room for what comes behind them
		line = cutStep.ReplaceAllString(line, "$1.batch ")
	}
	if group == "sacct" || group == "final-states" {
		line = someNode.ReplaceAllString(line, "@NODE")
		line = spooled.ReplaceAllString(line, "@PATH/slurm_script:")
	}
	if group == "nodes" {
		line = strings.ReplaceAll(settling.ReplaceAllString(line, "$1"), "+NOT_RESPONDING", "")
	}
	if cutID.MatchString(line) && len(line) == 31 {
		line = line[:strings.IndexByte(line, '[')+cutTo]
	}
	for _, m := range masks {
		line = m.like.ReplaceAllString(line, m.by)
	}
	return line
}

// cutID is an id with a list of array tasks that was cut to 31 bytes: how much of the list that leaves depends on how long the number is.
var cutID = regexp.MustCompile(`^\d+_\[[\d,-]*$`)

const cutTo = 20

// figures leaves of what sdiag prints the labels: its numbers are of the moment, and its list of calls names Slurm's own.
func figures(text string) string {
	head, rest, found := strings.Cut(text, "\nRemote Procedure Call statistics by message type")
	if found {
		_, tail, _ := strings.Cut(rest, "\nPending RPC statistics")
		head += "\nRemote Procedure Call statistics by message type\nPending RPC statistics" + tail
	}
	for _, m := range masks {
		head = m.like.ReplaceAllString(head, m.by)
	}
	head = strings.ReplaceAll(means.ReplaceAllString(head, ""), "@TIME (0)", "@TIME (@TIME)")
	return regexp.MustCompile(`\b\d+(\.\d+)?\b`).ReplaceAllString(head, "0")
}

// means are lines of sdiag that are there only when something was counted.
var means = regexp.MustCompile(`(?m)^\t(Mean|Depth Mean|Queue length mean|Cycles per minute).*\n`)

var token = regexp.MustCompile(`@[A-Z]+|(\d+-)?\d+(:\d\d)+|\d+\.\d+|\d+|[A-Za-z]+| +|.`)

// sameLine compares two masked lines: job ids by a mapping that ids holds for the whole output, durations up to a minute and a half. Where such a
// thing has another length the blanks around may have too.
func sameLine(r *row, a, b string, ids map[string]string) bool {
	if a == b {
		return true
	}
	x, y := token.FindAllString(a, -1), token.FindAllString(b, -1)
	loose := false
	for _, t := range append(append([]string(nil), x...), y...) {
		job, _, _ := strings.Cut(t, ".")
		loose = loose || t[0] == '@' || isId(job)
	}
	free := anyNumber.MatchString(r.bare())
	unseen := unlooked.MatchString(r.Group + "/" + r.Name) // see there
	if ranges.MatchString(r.bare()) {
		a, b = figure.ReplaceAllString(a, "@FIGURE"), figure.ReplaceAllString(b, "@FIGURE")
		x, y, loose = token.FindAllString(a, -1), token.FindAllString(b, -1), true
	}
	if len(x) != len(y) {
		x, y = drop(x), drop(y)
	}
	if len(x) != len(y) {
		return false
	}
	blanks := false
	for i := range x {
		switch p, q := x[i], y[i]; {
		case p == q:
		case isId(q) && number(p) && mapped(ids, p, q):
			loose = true
		case sameStep(p, q, ids):
			loose = true
		case duration(p) >= 0 && duration(q) >= 0 && math.Abs(duration(p)-duration(q)) <= 90:
			loose = true
		case free && number(p) && number(q):
			loose = true
		case unseen && p == "None" && isReason(q) && slices.Contains(x[:i], "PENDING"):
			loose = true
		case strings.TrimSpace(p) == "" && strings.TrimSpace(q) == "":
			blanks = true
		default:
			return false
		}
	}
	return loose || !blanks
}

// unlooked are rows that were recorded before the real controller looked at a job that was just submitted, changed or released, which it
// does within three seconds: until then it has no reason (None). Stint looks at once, so there its reason may be any.
var unlooked = regexp.MustCompile(`^(control/08[34]-|dependency/(022-aftercorr-pending|026-singleton|027-on-done-ok)$|array/01[45]-)`)

func isReason(word string) bool {
	for r := range events.Reason_name {
		if events.Reason(r).Word() == word {
			return true
		}
	}
	return false
}

// drop leaves blanks out.
func drop(tokens []string) (out []string) {
	for _, t := range tokens {
		if strings.TrimSpace(t) != "" {
			out = append(out, t)
		}
	}
	return out
}

func number(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// isId says whether a number of ours can only be a job's id.
func isId(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > idsFrom && n < idsFrom+2000
}

// sameStep says whether 9.0 and 3009.0 can be the same step of the same job.
func sameStep(real, ours string, ids map[string]string) bool {
	j, s, ok := strings.Cut(real, ".")
	k, t, ok2 := strings.Cut(ours, ".")
	return ok && ok2 && s == t && isId(k) && number(j) && mapped(ids, j, k)
}

// mapped says whether a recorded id and ours can be the same job, and remembers that they are.
func mapped(ids map[string]string, real, ours string) bool {
	known, seen := ids[ours]
	back, had := ids["of "+real]
	if seen || had {
		return known == real && back == ours
	}
	g, _ := strconv.Atoi(real)
	o, _ := strconv.Atoi(ours)
	if g > lateBy {
		g -= lateBy
	}
	if g < 1 || o-g < idsFrom-idsDrift || o-g > idsFrom+idsDrift {
		return false
	}
	ids[ours], ids["of "+real] = real, ours
	return true
}

// duration reads [D-][H:]M:S and returns seconds, -1 if it is none.
func duration(s string) float64 {
	days := 0.0
	if d, rest, ok := strings.Cut(s, "-"); ok {
		n, err := strconv.ParseFloat(d, 64)
		if err != nil {
			return -1
		}
		days, s = n, rest
	}
	if !strings.Contains(s, ":") {
		return -1
	}
	total := 0.0
	for _, part := range strings.Split(s, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return -1
		}
		total = total*60 + n
	}
	return days*86400 + total
}
