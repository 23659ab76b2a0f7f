package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// note adds a sentence for stderr that stops nothing.
func (q *request) note(format string, args ...any) {
	q.Notes = append(q.Notes, fmt.Sprintf(format, args...))
}

// coreSpec is for sites that let jobs leave more or fewer cores to the system than the nodes are configured to.
func (q *request) coreSpec(g Given) error {
	if !isCount(g.Value) {
		return refusal("Invalid numeric value %s for %s: it must be a whole number", clip(g.Value), g.Option.Spelled())
	}
	q.note("%s has %s", g.Option.Spelled(), g.Option.Help)
	return nil
}

func (q *request) batch(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	c, err := ParseConstraint(g.Value)
	q.Spec.BatchFeatures = c
	return err
}

// burstBufferFile reads what --bb would say from a file.
func (q *request) burstBufferFile(g Given) error {
	text, _, err := q.in.Read(g.Value)
	if err != nil {
		return usage("%s: %v", g.Option.Spelled(), err)
	}
	g.Value = strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ";")
	if err := plain(g); err != nil {
		return err
	}
	q.Spec.BurstBuffer = g.Value
	return nil
}

func (q *request) delayBoot(g Given) error {
	n, err := ParseDelay(g.Value)
	if err != nil {
		return usage("%s: %v", g.Option.Spelled(), err)
	}
	q.Spec.DelayBootS = n
	return nil
}

// power reads the one word that there is; others are passed over, as in Slurm.
func (q *request) power(g Given) error {
	q.Spec.Power = ""
	for w := range strings.SplitSeq(g.Value, ",") {
		switch {
		case strings.EqualFold(w, "level"):
			q.Spec.Power = "LEVEL"
		case w != "":
			q.note("%s is not a word for %s, and is passed over: known is level", clip(w), g.Option.Spelled())
		}
	}
	return nil
}

// cpuFreq keeps the frequency for SLURM_CPU_FREQ_REQ, as it is told by name.
func (q *request) cpuFreq(g Given) error {
	shown, ok := cpuFrequency(g.Value)
	if !ok {
		return usage("%s is not a value for %s: write FREQ, FREQ-FREQ[:GOVERNOR] or GOVERNOR, where FREQ is KHz or low, medium, highm1 or high", clip(g.Value), g.Option.Spelled())
	}
	q.Spec.CpuFreq = shown
	return nil
}

func isCount(v string) bool {
	_, err := strconv.ParseUint(v, 10, 31)
	return err == nil
}

// governors are the words that the kernel has for how a CPU's frequency is chosen, as they are shown.
var governors = []string{"Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace"}

// IsGovernor says whether a word is the name of one, as it is shown.
func IsGovernor(word string) bool { return slices.Contains(governors, word) }

// cpuFrequency reads `p1[-p2[:governor]]`, where each p is KHz or low, medium, highm1, high, or a governor alone, and gives it as it is shown.
func cpuFrequency(v string) (shown string, ok bool) {
	word := func(w string, of ...string) string {
		for _, known := range of {
			if strings.EqualFold(w, known) {
				return known
			}
		}
		return ""
	}
	frequency := func(w string) string {
		if isCount(w) {
			return w
		}
		return word(w, "Low", "Medium", "Highm1", "High")
	}
	if alone := word(v, governors...); alone != "" {
		return alone, true
	}
	least, rest, ranged := strings.Cut(v, "-")
	if shown = frequency(least); shown == "" || !ranged {
		return shown, shown != ""
	}
	most, governor, named := strings.Cut(rest, ":")
	if most = frequency(most); most == "" {
		return "", false
	}
	lo, err1 := strconv.ParseUint(least, 10, 31)
	if hi, err2 := strconv.ParseUint(most, 10, 31); err1 == nil && err2 == nil && lo > hi {
		return "", false
	}
	shown += "-" + most
	if named {
		if governor = word(governor, governors...); governor == "" {
			return "", false
		}
		shown += ":" + governor
	}
	return shown, true
}

// gpuFreq keeps the frequency for SLURM_GPU_FREQ.
func (q *request) gpuFreq(g Given) error {
	if !isGPUFrequency(g.Value) {
		return usage("%s is not a value for %s", clip(g.Value), g.Option.Spelled())
	}
	q.gpuClock, q.Spec.TresFreq = g.Value, "gpu:"+g.Value
	return nil
}

// isGPUFrequency reads `[memory=]VALUE` joined by commas, and `verbose`; a value is MHz or low, medium, highm1, high.
func isGPUFrequency(v string) bool {
	for _, w := range strings.Split(strings.ToLower(v), ",") {
		switch w = strings.TrimPrefix(w, "memory="); w {
		case "low", "medium", "high", "highm1", "verbose":
		default:
			if !isCount(w) {
				return false
			}
		}
	}
	return true
}

// acctgFreq reads `SECONDS` or a list of `KIND=SECONDS`.
func (q *request) acctgFreq(g Given) error {
	kinds := []string{"task", "energy", "network", "filesystem"}
terms:
	for _, term := range strings.Split(g.Value, ",") {
		kind, seconds, named := strings.Cut(term, "=")
		if !named {
			kind, seconds = "task", term
		}
		for _, k := range kinds {
			if strings.EqualFold(kind, k) && isCount(seconds) {
				continue terms
			}
		}
		return usage("%s in --acctg-freq is not a number of seconds, or KIND=SECONDS with one of the kinds %s", clip(term), strings.Join(kinds, ", "))
	}
	q.Spec.AcctgFreq = g.Value
	q.note("--acctg-freq: usage is sampled as often as the site has it")
	return nil
}

// gpuBind checks the value of --gpu-bind, which is for the steps of the job.
func (q *request) gpuBind(g Given) error {
	v := strings.ToLower(g.Value)
	v = strings.TrimPrefix(strings.TrimPrefix(v, "verbose,"), "v,")
	kind, list, listed := strings.Cut(v, ":")
	ok := false
	switch kind {
	case "closest", "none":
		ok = !listed
	case "single", "per_task":
		ok = !listed && kind == "single" || listed && isCount(list)
	case "map", "map_gpu":
		ok = isListOf(list, "0123456789")
	case "mask", "mask_gpu":
		ok = isListOf(strings.ReplaceAll(list, "0x", ""), "0123456789abcdef")
	}
	if !ok {
		return refusal("%s is not a way to bind GPUs: write closest, none, single:N, per_task:N, map:LIST or mask:LIST", clip(g.Value))
	}
	q.gpuBound, q.Spec.TresBind = g.Value, "gpu:"+g.Value
	return nil
}

// isListOf says whether a list has terms of these digits, each with *COUNT behind it or not.
func isListOf(list, digits string) bool {
	for term := range strings.SplitSeq(list, ",") {
		value, times, several := strings.Cut(term, "*")
		if value == "" || strings.Trim(value, digits) != "" || several && !isCount(times) {
			return false
		}
	}
	return true
}

// prefer checks the features a job would rather have.
func (q *request) prefer(g Given) error {
	if err := plain(g); err != nil {
		return err
	}
	c, err := ParseConstraint(g.Value)
	q.Spec.Prefer = c
	return err
}

// asRoot is for options that only root may use; others end with the code of a bad option, as in Slurm.
func asRoot(field func(*request) *string) func(*request, Given) error {
	return func(q *request, g Given) error {
		if !q.in.Root {
			return usage("%s is only permitted to root", g.Option.Spelled())
		}
		if g.Value == "" {
			return usage("%s needs a name or a number", g.Option.Spelled())
		}
		*field(q) = g.Value
		return nil
	}
}

// exportFile reads the environment for the job from a file: variables as NAME=value, each with a NUL behind it.
func (q *request) exportFile(g Given) error {
	if strings.Trim(g.Value, "0123456789") == "" {
		return refusal("--export-file=%s names an open file; Stint reads files by their names", g.Value)
	}
	text, _, err := q.in.Read(g.Value)
	if err != nil {
		return refusal("--export-file: %v", err)
	}
	q.fileEnviron = []string{}
	for _, nv := range strings.Split(string(text), "\x00") {
		if nv = strings.TrimSuffix(nv, "\n"); nv == "" {
			continue
		}
		if name, _, ok := strings.Cut(nv, "="); !ok || name == "" {
			return refusal("%s in the file of --export-file is not NAME=value", clip(nv))
		}
		q.fileEnviron = append(q.fileEnviron, nv)
	}
	return nil
}

// tresBind reads --tres-bind, which says of GPUs what --gpu-bind says; of other resources tasks are bound to none.
func (q *request) tresBind(g Given) error {
	kind, ok := strings.CutPrefix(strings.ToLower(g.Value), "gres/gpu:")
	if !ok || strings.Contains(kind, "+") {
		return refusal("%s is not a way to bind tasks: write gres/gpu:KIND, such as gres/gpu:closest; to other resources tasks are not bound", clip(g.Value))
	}
	g.Value = kind
	return q.gpuBind(g)
}
