package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/integration/alike"
)

// idsFrom: where job ids are not the recorded ones they are beyond it, and differ from the recorded by about as much.
const idsFrom, idsDrift = 3000, 900

// lateFrom: the scenario of final states was recorded behind so many jobs, and that of enforcement behind about as many.
const lateFrom, lateBy = 12340, 12290

// Rows of a command's own kind that tell of the machine and the moment, by the row's bare name: of ranges a figure may stand for several nodes' least
// and most, of anyNumber numbers may be any.
var (
	ranges    = regexp.MustCompile(`^(fmt-[Oe]|long-(CPUsLoad|FreeMem))$`)
	anyNumber = regexp.MustCompile(`^(squeue-requeued|fmt-[pQOeP]|long-(Priority|PriorityLong|PendingTime|CPUsLoad|FreeMem|AllocSid|CPULoad|All)|fmt-w2|fmt-all|field-(DBIndex|Priority|CPUTimeRAW|ElapsedRaw|ResvCPURAW))$`)
)

// unordered are commands whose lines come in the order in which the real one's threads happened to end: sinfo by node, or sorted by what
// several partitions have in common; what two nodes of a step say at once.
var unordered = regexp.MustCompile(`\bsinfo\b.* -N\b|\bsinfo -N\b|\bsinfo -S -?[nN]$`)
var unorderedRow = regexp.MustCompile(`^(final-states/026-out-CS|env/040-srun-direct)$`)

// cpuTimes are rows of how long processors worked, which a short step may not show at all.
var (
	cpuTimes = regexp.MustCompile(`^field-(SystemCPU|TotalCPU|UserCPU)$`)
	cpuTime  = regexp.MustCompile(`\b\d\d:\d\d(\.\d{3}|:\d\d)\b`)
)

// earlier are rows of all jobs of a user, where the recorded cluster still knew those of other scenarios.
var earlier = regexp.MustCompile(`^squeue-(all|all-fmt|F|CD)$`)

// ofJob is a record of sacct about a job.
var ofJob = regexp.MustCompile(`(?m)^\d+(_\S+)? .*\n?`)

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

// rules are what may differ in a row.
func (r *row) rules() alike.Rules {
	var also func([]string, string, string) bool
	if unlooked.MatchString(r.Group + "/" + r.Name) {
		also = func(before []string, real, ours string) bool {
			return real == "None" && isReason(ours) && slices.Contains(before, "PENDING")
		}
	}
	return alike.Rules{
		Also: also,
		Line: func(line string) string { return mask(r.Group, line) }, ID: isID, Pair: near, Cut: r.Truncated,
		Figures: anyNumber.MatchString(r.bare()), Ranges: ranges.MatchString(r.bare()),
		Unordered: unordered.MatchString(r.Command) || unorderedRow.MatchString(r.Group+"/"+r.Name),
	}
}

// differ compares what was printed and returns the first line that differs, "" if none does.
func differ(r *row, real, ours string) string {
	if r.Group == "sdiag" {
		real, ours = figures(real), figures(ours)
	}
	if r.Group == "filenames" {
		ours = strings.ReplaceAll(ours, "0JOBID", "JOBID") // %5j of an id of four digits
	}
	if cpuTimes.MatchString(r.bare()) {
		real, ours = cpuTime.ReplaceAllString(real, "@CPU"), cpuTime.ReplaceAllString(ours, "@CPU")
	}
	if host, err := os.Hostname(); err == nil && r.bare() == "long-AllocNodes" {
		ours = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(ours, "localhost@HOST")
		real = strings.ReplaceAll(real, "localhost", "localhost@HOST")
	}
	return r.rules().Differ(real, ours)
}

// differing returns the lines that only one side has.
func differing(r *row, real, ours string) []string { return r.rules().Differing(real, ours) }

// settling is the mark of a node that was made up again and has not answered yet.
var settling = regexp.MustCompile(`\b(idle|drain|drained|down|mix|mixed)\*`)

// someNode is one of the nodes where a job ended that filled none of them: the recorded jobs lasted long enough to fill n1, ours do not. spooled is a
// script as a shell names it.
var (
	someNode = regexp.MustCompile(`\bn[1-4]\b`)
	cutStep  = regexp.MustCompile(`^(3\d{3}_\d+)\.(bat|batc)\+`)
	spooled  = regexp.MustCompile(`\S+/slurm_script:`)
)

// mask puts what is particular to a group into words.
func mask(group, line string) string {
	if group == "sacct" { // longer ids leave less room for what comes behind them
		line = cutStep.ReplaceAllString(line, "$1.batch ")
	}
	if group == "sacct" || group == "final-states" {
		line = someNode.ReplaceAllString(line, "@NODE")
		line = spooled.ReplaceAllString(line, "@PATH/slurm_script:")
	}
	if group == "sstat" {
		line = used.ReplaceAllString(line, "$1$2@USED")
	}
	if group == "nodes" {
		line = strings.ReplaceAll(settling.ReplaceAllString(line, "$1"), "+NOT_RESPONDING", "")
	}
	if cutID.MatchString(line) && len(line) == 31 {
		line = line[:strings.IndexByte(line, '[')+cutTo]
	}
	if group == "env" {
		for _, m := range ofMachine {
			line = m.like.ReplaceAllString(line, m.by)
		}
	}
	return line
}

// used is what a shell takes of memory and reads, which is the machine's.
var used = regexp.MustCompile(`()\b\d{4}K\b|(fs/disk=)\d+`)

// ofMachine is what an environment tells of the machine and of where the commands are.
var ofMachine = []struct {
	like *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`^(\d+: )?SLURM_(CONF|LAUNCH_NODE_IPADDR|SRUN_COMM_HOST|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|TASK_PID)=.*`), "${1}SLURM_$2=@MACHINE"},
	{regexp.MustCompile(`/var/tmp/stint-golden-[^:]*/bin:`), ""},
	{regexp.MustCompile(`^(file size|pending signals|max user processes|open files|max locked memory) +(\(\S+, -\w\)|\(-\w\)) .*`), "$1 @LIMIT"},
}

// cutID is an id with a list of array tasks that was cut to 31 bytes: how much of the list that leaves depends on how long the number is.
var cutID = regexp.MustCompile(`^\d+_\[[\d,-]*$`)

const cutTo = 20

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

// figures leaves of what sdiag prints the labels: its numbers are of the moment, and its list of calls names Slurm's own. What
// stands behind all of Slurm's lines is Stint's own.
func figures(text string) string {
	text, _, _ = strings.Cut(text, "\nStint statistics\n")
	head, rest, found := strings.Cut(text, "\nRemote Procedure Call statistics by message type")
	if found {
		_, tail, _ := strings.Cut(rest, "\nPending RPC statistics")
		head += "\nRemote Procedure Call statistics by message type\nPending RPC statistics" + tail
	}
	head = strings.ReplaceAll(means.ReplaceAllString(alike.Mask(head), ""), "@TIME (0)", "@TIME (@TIME)")
	return regexp.MustCompile(`\b\d+(\.\d+)?\b`).ReplaceAllString(head, "0")
}

// means are lines of sdiag that are there only when something was counted.
var means = regexp.MustCompile(`(?m)^\t(Mean|Depth Mean|Queue length mean|Cycles per minute).*\n`)

// isID says whether a number of ours can only be a job's id.
func isID(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > idsFrom && n < idsFrom+2000
}

// near says whether a recorded id and ours can be the same job.
func near(real, ours int) bool {
	if real > lateBy {
		real -= lateBy
	}
	return real >= 1 && ours-real >= idsFrom-idsDrift && ours-real <= idsFrom+idsDrift
}
