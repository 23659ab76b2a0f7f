package slurm

import (
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

var signals = []struct {
	name   string
	number int32
}{
	{"HUP", 1}, {"INT", 2}, {"QUIT", 3}, {"ABRT", 6}, {"KILL", 9}, {"USR1", 10}, {"USR2", 12}, {"ALRM", 14}, {"TERM", 15},
	{"CONT", 18}, {"STOP", 19}, {"TSTP", 20}, {"TTIN", 21}, {"TTOU", 22}, {"URG", 23}, {"XCPU", 24},
}

// ParseSignal reads the name of a signal, with or without SIG and in any case, or its number from 1 to 64.
func ParseSignal(s string) (int32, bool) {
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for _, sig := range signals {
		if sig.name == name {
			return sig.number, true
		}
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int32(n), err == nil && n >= 1 && n <= 64 && s[0] != '+'
}

// SignalName is the name of a signal without SIG, or its number where it has none here.
func SignalName(n int32) string {
	for _, sig := range signals {
		if sig.number == n {
			return sig.name
		}
	}
	return strconv.Itoa(int(n))
}

// signalTexts is what the C library says of signals, which Slurm shows of those that end a job.
var signalTexts = once.Value[map[int32]string]{Make: func() map[int32]string {
	return map[int32]string{
		1: "Hangup", 2: "Interrupt", 3: "Quit", 4: "Illegal instruction", 5: "Trace/breakpoint trap", 6: "Aborted", 7: "Bus error", 8: "Floating point exception", 9: "Killed",
		10: "User defined signal 1", 11: "Segmentation fault", 12: "User defined signal 2", 13: "Broken pipe", 14: "Alarm clock", 15: "Terminated", 16: "Stack fault", 17: "Child exited",
		18: "Continued", 19: "Stopped (signal)", 20: "Stopped", 21: "Stopped (tty input)", 22: "Stopped (tty output)", 23: "Urgent I/O condition", 24: "CPU time limit exceeded",
		25: "File size limit exceeded", 26: "Virtual timer expired", 27: "Profiling timer expired", 28: "Window changed", 29: "I/O possible", 30: "Power failure", 31: "Bad system call",
	}

}}

// SignalText is what the C library says of a signal.
func SignalText(n int32) string {
	if text, ok := signalTexts.Get()[n]; ok {
		return text
	}
	if n >= 34 && n <= 64 {
		return "Real-time signal " + strconv.Itoa(int(n-34))
	}
	return "Unknown signal " + strconv.Itoa(int(n))
}

// DefaultWarnSeconds is how long before the time limit --signal warns when it says nothing else.
const DefaultWarnSeconds = 60

// ParseWarn reads the value of --signal: `[R][B]:SIG[@SECONDS]`, the flags and their colon left out for neither.
func ParseWarn(value string) (*events.WarnSignal, error) {
	w := &events.WarnSignal{BeforeS: DefaultWarnSeconds}
	rest := value
	if flags, after, ok := strings.Cut(rest, ":"); ok {
		for _, f := range flags {
			switch f {
			case 'B', 'b':
				w.Batch = true
			case 'R', 'r':
				w.Reservation = true
			default:
				return nil, usage("%s is not a value for --signal: before the colon may stand B (the batch shell) and R (overlap with reservations)", clip(value))
			}
		}
		rest = after
	}
	sig, before, timed := strings.Cut(rest, "@")
	n, ok := ParseSignal(sig)
	if !ok {
		return nil, usage("%s in --signal=%s is not a signal: write a name such as USR1 or TERM, or a number from 1 to 64", clip(sig), value)
	}
	w.Signal = n
	if timed && before != "" {
		s, err := strconv.ParseUint(before, 10, 16)
		if err != nil || before[0] == '+' {
			return nil, usage("%s in --signal=%s is not a number of seconds from 0 to 65535", clip(before), value)
		}
		w.BeforeS = uint32(s)
	}
	return w, nil
}
