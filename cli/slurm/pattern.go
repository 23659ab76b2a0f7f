package slurm

import (
	"strconv"
	"strings"
)

// Names are what a file name pattern of --output, --error and --input may stand for.
type Names struct {
	Job      uint32 // raw job id
	Array    uint32 // id of the array, 0 if there is none
	Task     uint32 // index in the array
	Step     string // batch, 0, 1, …
	Node     string // short host name
	NodeRank uint32
	TaskRank uint32
	User     string
	JobName  string
}

// noTask is what %a stands for outside an array.
const noTask = 4294967294

// FileName fills in a pattern: %A array or job id, %a index, %J job and step, %j job id, %N node, %n node rank, %s step,
// %t task rank, %u user, %x job name, %b index modulo ten (since 24.05), %% a percent sign. Digits before the letter
// pad numbers with zeros, to ten at most. A pattern with a backslash is taken as it is, the backslashes left out.
// Letters that mean nothing stay.
func FileName(pattern string, n Names, r Release) string {
	if strings.Contains(pattern, `\`) {
		return strings.ReplaceAll(pattern, `\`, "")
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		j := i + 1
		for j < len(pattern) && pattern[j] >= '0' && pattern[j] <= '9' {
			j++
		}
		if j == len(pattern) {
			b.WriteString(pattern[i:])
			break
		}
		width, _ := strconv.Atoi(pattern[i+1 : j])
		if width > 10 || j-i > 4 {
			width = 10
		}
		text, number, ok := n.value(pattern[j], r)
		switch {
		case !ok:
			b.WriteString(pattern[i : j+1])
		case number && len(text) < width:
			b.WriteString(strings.Repeat("0", width-len(text)) + text)
		default:
			b.WriteString(text)
		}
		i = j
	}
	return b.String()
}

func (n Names) value(letter byte, r Release) (text string, number, ok bool) {
	u := func(v uint32) (string, bool, bool) { return strconv.FormatUint(uint64(v), 10), true, true }
	switch letter {
	case '%':
		return "%", false, true
	case 'A':
		if n.Array != 0 {
			return u(n.Array)
		}
		return u(n.Job)
	case 'a':
		if n.Array == 0 {
			return u(noTask)
		}
		return u(n.Task)
	case 'b':
		if r < 2405 {
			return "", false, false
		}
		if n.Array == 0 {
			return u(noTask % 10)
		}
		return u(n.Task % 10)
	case 'J':
		if n.Step == "batch" || n.Step == "" {
			return u(n.Job)
		}
		return strconv.FormatUint(uint64(n.Job), 10) + "." + n.Step, false, true
	case 'j':
		return u(n.Job)
	case 'N':
		short, _, _ := strings.Cut(n.Node, ".")
		return short, false, true
	case 'n':
		return u(n.NodeRank)
	case 's':
		_, err := strconv.Atoi(n.Step)
		return n.Step, err == nil, true
	case 't':
		return u(n.TaskRank)
	case 'u':
		return n.User, false, true
	case 'x':
		return n.JobName, false, true
	}
	return "", false, false
}
