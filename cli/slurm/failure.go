// Package slurm is the grammar of Slurm's commands as data: their options, values, scripts and texts. It has no clock,
// no files and no environment of its own; commands hand these in, and get back what was asked for, or a Failure.
package slurm

import (
	"fmt"
	"strings"
)

// Exit codes of refused command lines, by kind of command: the ones that submit use 255, all others 1.
const (
	ExitUsage  = 255
	ExitFailed = 1
)

// Failure is the refusal of a command line: a sentence that names what is wrong and what would be right, and the exit
// code. It is an error, and prints as the command does with Message.
type Failure struct {
	Text string
	Exit int
	Bare bool // without the word `error:`, as getopt's own complaints are
	Hint bool // followed by the line that points to --help
}

func (f *Failure) Error() string { return f.Text }

// Message is the text for stderr, newline included.
func (f *Failure) Message(command string) string {
	var b strings.Builder
	for _, line := range strings.Split(f.Text, "\n") {
		b.WriteString(command)
		if f.Bare || strings.HasPrefix(line, "fatal: ") {
			b.WriteString(": ")
		} else {
			b.WriteString(": error: ")
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	if f.Hint {
		fmt.Fprintf(&b, "Try \"%s --help\" for more information\n", command)
	}
	return b.String()
}

// usage is a Failure with the exit code of an unparsable value.
func usage(format string, args ...any) *Failure {
	return &Failure{Text: fmt.Sprintf(format, args...), Exit: ExitUsage}
}

// refusal is a Failure with the exit code of a request that is understood and cannot be met.
func refusal(format string, args ...any) *Failure {
	return &Failure{Text: fmt.Sprintf(format, args...), Exit: ExitFailed}
}

// clip shows user text in a sentence, at a readable length.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
