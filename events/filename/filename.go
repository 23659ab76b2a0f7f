// Package filename fills in the patterns of --output, --error and --input: %j, %x, %4t and the like (sbatch(1), "filename pattern").
package filename

import (
	"strconv"
	"strings"
)

// Names are what a pattern may stand for.
type Names struct {
	Job      uint32 // raw job id
	Array    uint32 // id of the array, 0 if there is none
	Task     uint32 // index in the array
	Step     string // batch, 0, 1, …
	Node     string // host name; its first part counts
	NodeRank uint32
	TaskRank uint32
	User     string
	JobName  string
	NoModulo bool // %b means nothing, as before 24.05
	AsShown  bool // letters with a width stay, as scontrol of 22.05 shows a path
}

// noTask is what %a stands for outside an array.
const noTask = 4294967294

// widest is the greatest width that numbers are padded to.
const widest = 10

// OfNode are the letters that only the node knows which a file is opened on: rank of the task, place and name of the node.
const OfNode = "tnN"

// Expand fills in a pattern: %A array or job id, %a index, %J job and step, %j job id, %N node, %n node rank, %s step, %t task rank, %u
// user, %x job name, %b index modulo ten, %% a percent sign. Digits before the letter pad numbers with zeros, to ten at most. A pattern with
// a backslash is taken as it is, the backslashes left out. Letters that mean nothing stay.
func Expand(pattern string, n Names) string {
	if strings.Contains(pattern, `\`) {
		return strings.ReplaceAll(pattern, `\`, "")
	}
	return each(pattern, func(letter byte, spec string, width int) string {
		if letter == '%' {
			return "%"
		}
		if text, ok := n.value(letter, width); ok && !(n.AsShown && len(spec) > len("%j")) {
			return text
		}
		return spec
	})
}

// PerTask tells whether a pattern names another file for each task or node.
func PerTask(pattern string) bool {
	found := false
	if !strings.Contains(pattern, `\`) {
		each(pattern, func(letter byte, _ string, _ int) string {
			found = found || strings.IndexByte(OfNode, letter) >= 0
			return ""
		})
	}
	return found
}

// BeforeNode fills in what is the same on all nodes. AtNode fills in the rest.
func BeforeNode(pattern string, n Names) string {
	return each(pattern, func(letter byte, spec string, width int) string {
		if letter != '%' && strings.IndexByte(OfNode, letter) < 0 {
			if text, ok := n.value(letter, width); ok {
				return strings.ReplaceAll(text, "%", "%%")
			}
		}
		return spec
	})
}

// AtNode fills in what BeforeNode has left: task and node.
func AtNode(pattern string, n Names) string {
	return each(pattern, func(letter byte, spec string, width int) string {
		if letter == '%' {
			return "%"
		}
		if strings.IndexByte(OfNode, letter) >= 0 {
			text, _ := n.value(letter, width)
			return text
		}
		return spec
	})
}

// each puts in what f says for each %LETTER, which stands there as spec. A percent sign without a letter stays.
func each(pattern string, f func(letter byte, spec string, width int) string) string {
	if strings.IndexByte(pattern, '%') < 0 {
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
		width, err := strconv.Atoi(pattern[i+1 : end])
		if err != nil && end > i+1 {
			width = widest
		}
		b.WriteString(f(pattern[end], pattern[i:end+1], min(width, widest)))
		i = end
	}
	return b.String()
}

func (n Names) value(letter byte, width int) (string, bool) {
	number := func(v uint32) (string, bool) {
		text := strconv.FormatUint(uint64(v), 10)
		return strings.Repeat("0", max(0, width-len(text))) + text, true
	}
	task := n.Task
	if n.Array == 0 {
		task = noTask
	}
	switch letter {
	case 'A':
		if n.Array != 0 {
			return number(n.Array)
		}
		return number(n.Job)
	case 'a':
		return number(task)
	case 'b':
		if n.NoModulo {
			return "", false
		}
		return number(task % 10)
	case 'J':
		if n.Step == "batch" || n.Step == "" {
			return number(n.Job)
		}
		return strconv.FormatUint(uint64(n.Job), 10) + "." + n.Step, true
	case 'j':
		return number(n.Job)
	case 'N':
		short, _, _ := strings.Cut(n.Node, ".")
		return short, true
	case 'n':
		return number(n.NodeRank)
	case 's':
		if v, err := strconv.ParseUint(n.Step, 10, 32); err == nil {
			return number(uint32(v))
		}
		return n.Step, true
	case 't':
		return number(n.TaskRank)
	case 'u':
		return n.User, true
	case 'x':
		return n.JobName, true
	}
	return "", false
}
