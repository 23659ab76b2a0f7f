package idset

import (
	"fmt"
	"strconv"
	"strings"
)

// HighestTask is the highest task index any job array may have, whatever MaxArraySize says.
const HighestTask = 4000000

// ParseArray reads the value of `sbatch --array`: ranges with steps, and after a percent sign the number of tasks that
// may run at once, `0-19%5`. A throttle of 0 means no limit, as does a percent sign with nothing after it.
func ParseArray(text string) (tasks Set, throttle int, err error) {
	body, limit, throttled := strings.Cut(text, "%")
	if strings.HasPrefix(body, "[") && strings.HasSuffix(limit, "]") { // [0-5%2], as squeue prints it
		body, limit = body+"]", strings.TrimSuffix(limit, "]")
	}
	if throttled && limit != "" {
		if throttle, err = number(limit); err != nil || throttle > HighestTask {
			return Set{}, 0, fmt.Errorf("%s after %% is not a number of tasks to run at once", clip(limit))
		}
	}
	tasks, err = Parse(body, HighestTask)
	if err == nil && tasks.Empty() {
		err = fmt.Errorf("no task index is given")
	}
	return tasks, throttle, err
}

// FormatArray writes the task indices of an array as Slurm's commands do: an even step as such if it has more than five
// members that span more than ten (`0-25:5`, but `0,5,10,15,20`), anything else as ranges. What does not fit in a buffer of limit
// bytes (less three) is cut and ends in `...`; limit 0 means no limit (commands take it from SLURM_BITSTR_LEN, 64 by
// default). The throttle follows.
func FormatArray(tasks Set, throttle, limit int) string {
	text, ok := steps(tasks)
	if !ok {
		text = tasks.String()
	}
	if limit > 0 && len(text) > limit-3 {
		text = text[:min(max(limit-4, 0), len(text))] + "..."
	}
	if throttle > 0 {
		text += "%" + strconv.Itoa(throttle)
	}
	return text
}

func steps(s Set) (string, bool) {
	lo, hi := s.Min(), s.Max()
	if hi-lo <= 10 || s.Has(lo+1) || s.Len() <= 5 {
		return "", false
	}
	step := s.Next(lo+1) - lo
	n := 0
	for id := lo; id <= hi; id += step {
		if !s.Has(id) {
			return "", false
		}
		n++
	}
	if n != s.Len() || lo+(n-1)*step != hi {
		return "", false
	}
	return fmt.Sprintf("%d-%d:%d", lo, hi, step), true
}
