// Package alike says whether a real Slurm's and Stint's outputs of the same command are the same, apart from what tells of the run and not of
// the answer: times, durations of a moment, versions, process ids, ports, priorities.
package alike

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rules are what else may differ between two outputs. The zero value allows nothing else.
type Rules struct {
	Line      func(line string) string                      // masks what is particular to the command, before anything else; nil: nothing
	ID        func(ours string) bool                        // says that a number of ours can only be a job's id; nil: ids are the same on both sides
	Pair      func(real, ours int) bool                     // whether these ids can be the same job's
	Figures   bool                                          // any number may be any other
	Ranges    bool                                          // of figures, a range may be one figure
	Unordered bool                                          // lines may come in any order
	Also      func(before []string, real, ours string) bool // says that these words may stand for one another, the real one's words before; nil: never
	Cut       bool                                          // the real one's output was cut off, within a line
}

// lateS is how far durations may be apart, in seconds.
const lateS = 90

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
	{regexp.MustCompile(`^(FirstJobId|NEXT_JOB_ID) +=.*`), "$1=@ID"},        // of the comparison's own making
	{regexp.MustCompile(`^SchedulerType +=.*`), "SchedulerType=@SCHEDULER"}, // so is this
	{regexp.MustCompile(`^(PluginDir|Slurmctld\w+File|Slurmd\w+File|SlurmdSpoolDir|StateSaveLocation|SLURM_CONF) +=.*`), "$1=@PATH"},
	{regexp.MustCompile(`exceeded memory limit \(\d+ >`), "exceeded memory limit (@BYTES >"},
	{regexp.MustCompile(`^(\d+: )?SLURM_CONF=.*`), "${1}SLURM_CONF=@PATH"}, // of tasks with srun -l too
	{regexp.MustCompile(`^(\d+: )?SLURM_TASK_PID=\d+$`), "${1}SLURM_TASK_PID=@PID"},
	{regexp.MustCompile(`^(\d+: )?(SLURM_SRUN_COMM|SLURM_STEP_LAUNCHER)_PORT=\d+$`), "$1${2}_PORT=@PORT"},
	{regexp.MustCompile(`^(\d+: )?(SLURM_SRUN_COMM_HOST|SLURM_LAUNCH_NODE_IPADDR)=\d+\.\d+\.\d+\.\d+$`), "$1$2=@HOST"},
	{regexp.MustCompile(`^(\d+: )?SLURM_WORKING_CLUSTER=(\S+):\d+\.\d+\.\d+\.\d+:\d+:`), "${1}SLURM_WORKING_CLUSTER=$2:@HOST:@PORT:"},
	{regexp.MustCompile(`\bPriority=[1-9]\d*`), "Priority=@PRIORITY"},
}

// Mask puts what the rules let differ in a line into words.
func (r Rules) Mask(line string) string {
	if r.Line != nil {
		line = r.Line(line)
	}
	return Mask(line)
}

// Mask is what all rules let differ.
func Mask(line string) string {
	for _, m := range masks {
		line = m.like.ReplaceAllString(line, m.by)
	}
	return line
}

// lines are those of both outputs, without blank ones at the end.
func lines(real, ours string) (a, b []string) {
	return strings.Split(strings.TrimRight(real, "\n"), "\n"), strings.Split(strings.TrimRight(ours, "\n"), "\n")
}

// Differ returns what the first line that differs is, "" if none does.
func (r Rules) Differ(real, ours string) string {
	a, b := lines(real, ours)
	if r.Cut && len(a) > 1 {
		a = a[:len(a)-1] // the last may be cut within
		b = b[:min(len(a), len(b))]
	}
	if r.Unordered {
		for _, lines := range [][]string{a, b} {
			for i := range lines {
				lines[i] = r.Mask(lines[i])
			}
			slices.SortFunc(lines, func(a, b string) int {
				if r.Figures || r.Ranges { // which have no say in the order
					if d := strings.Compare(figure.ReplaceAllString(a, ""), figure.ReplaceAllString(b, "")); d != 0 {
						return d
					}
				}
				return strings.Compare(a, b)
			})
		}
	}
	ids := map[string]string{}
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b):
			return fmt.Sprintf("line %d is missing: %q", i+1, a[i])
		case i >= len(a):
			return fmt.Sprintf("line %d is too much: %q", i+1, b[i])
		}
		if !r.sameLine(r.Mask(a[i]), r.Mask(b[i]), ids) {
			return fmt.Sprintf("line %d: real %q, ours %q", i+1, strings.TrimRight(a[i], " "), strings.TrimRight(b[i], " "))
		}
	}
	return ""
}

// Differing returns the lines that only one side has, the real one's behind a minus and ours behind a plus, at most thirty of them.
func (r Rules) Differing(real, ours string) (list []string) {
	a, b := lines(real, ours)
	if len(a)*len(b) > 1<<15 {
		return nil
	}
	masked := func(lines []string) []string {
		out := make([]string, len(lines))
		for i := range lines {
			out[i] = r.Mask(lines[i])
		}
		return out
	}
	x, y := masked(a), masked(b)
	same := func(i, j int) bool { return r.sameLine(x[i], y[j], map[string]string{}) }
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

var (
	token  = regexp.MustCompile(`@[A-Z]+|(\d+-)?\d+(:\d\d)+|\d+\.\d+|\d+|[A-Za-z]+| +|.`)
	figure = regexp.MustCompile(`\b\d+(\.\d+)?(-\d+(\.\d+)?)?\b`)
)

// sameLine compares two masked lines: job ids by a mapping that ids holds for the whole output, durations up to a minute and a half. Where such a
// thing has another length the blanks around may have too.
func (r Rules) sameLine(a, b string, ids map[string]string) bool {
	if a == b {
		return true
	}
	x, y := token.FindAllString(a, -1), token.FindAllString(b, -1)
	loose := false
	for _, t := range append(append([]string(nil), x...), y...) {
		job, _, _ := strings.Cut(t, ".")
		loose = loose || t[0] == '@' || r.isID(job)
	}
	if r.Ranges {
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
		case r.isID(q) && number(p) && r.mapped(ids, p, q):
			loose = true
		case r.sameStep(ids, p, q):
			loose = true
		case duration(p) >= 0 && duration(q) >= 0 && math.Abs(duration(p)-duration(q)) <= lateS:
			loose = true
		case r.Figures && number(p) && number(q):
			loose = true
		case r.Also != nil && r.Also(x[:i], p, q):
			loose = true
		case strings.TrimSpace(p) == "" && strings.TrimSpace(q) == "":
			blanks = true
		default:
			return false
		}
	}
	return loose || !blanks
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

// sameStep says whether 9.0 and 3009.0 can be the same step of the same job.
func (r Rules) sameStep(ids map[string]string, real, ours string) bool {
	j, s, ok := strings.Cut(real, ".")
	k, t, ok2 := strings.Cut(ours, ".")
	return ok && ok2 && s == t && r.isID(k) && number(j) && r.mapped(ids, j, k)
}

func (r Rules) isID(s string) bool { return r.ID != nil && r.ID(s) }

// mapped says whether a real id and ours can be the same job, and remembers that they are.
func (r Rules) mapped(ids map[string]string, real, ours string) bool {
	known, seen := ids[ours]
	back, had := ids["of "+real]
	if seen || had {
		return known == real && back == ours
	}
	p, _ := strconv.Atoi(real)
	q, _ := strconv.Atoi(ours)
	if r.Pair == nil || !r.Pair(p, q) {
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
