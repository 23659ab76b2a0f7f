package executor

import (
	"fmt"
	"strconv"
	"strings"

	"stint/events"
	"stint/projections"
)

// noTask is what stands for the array index of a job that is not of an array.
const noTask = 4294967294

// widest is the greatest width that numbers are padded to.
const widest = 10

// FileName expands the pattern of a batch job's file: %j job id, %J the same, %A id of the array or the job, %a array
// index, %b index modulo 10, %x job name, %u user, %N short host name, %n place of the node in the job, %s step, %t rank,
// %% a percent sign; a number between pads numbers with zeros (%4j). A pattern with a backslash in it is taken as it is,
// without backslashes. What is none of these stays as it is, as %b does in releases before 24.05.
func FileName(pattern string, job *projections.Job, node, compat string) string {
	if strings.Contains(pattern, `\`) {
		return strings.ReplaceAll(pattern, `\`, "")
	}
	if !strings.Contains(pattern, "%") {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		end := i + 1
		for end < len(pattern) && pattern[end] >= '0' && pattern[end] <= '9' {
			end++
		}
		if end == len(pattern) {
			b.WriteString(pattern[i:])
			break
		}
		width, _ := strconv.Atoi(pattern[i+1 : end])
		if text, ok := expand(pattern[end], min(width, widest), job, node); ok && !(pattern[end] == 'b' && compat == "22.05") {
			b.WriteString(text)
		} else {
			b.WriteString(pattern[i : end+1])
		}
		i = end
	}
	return b.String()
}

func expand(c byte, width int, job *projections.Job, node string) (string, bool) {
	number := func(n uint64) (string, bool) { return fmt.Sprintf("%0*d", width, n), true }
	task := uint64(noTask)
	if job.GetHasTask() {
		task = uint64(job.GetArrayTask())
	}
	switch c {
	case '%':
		return "%", true
	case 'j', 'J':
		return number(uint64(job.GetId()))
	case 'A':
		return number(uint64(job.Family()))
	case 'a':
		return number(task)
	case 'b':
		return number(task % 10)
	case 'n', 't':
		return number(0) // a batch script has one file, on the job's first node
	case 's':
		return events.StepName(events.StepBatch), true
	case 'x':
		return job.GetSpec().GetName(), true
	case 'u':
		return job.GetOwner().GetUser(), true
	case 'N':
		short, _, _ := strings.Cut(node, ".")
		return short, true
	}
	return "", false
}

// outputName is the pattern of a job's standard output.
func outputName(job *projections.Job) string {
	if p := job.GetSpec().GetStdOut(); p != "" {
		return p
	}
	if job.GetHasTask() {
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}
