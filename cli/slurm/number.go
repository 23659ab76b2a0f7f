package slurm

import (
	"strconv"
	"strings"
)

// positive reads a whole number of at least 1, as -n and -c take it. Slurm's own exit code for these is 1.
func positive(option, value string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(value, "+"), 10, 31)
	if err != nil || n == 0 {
		return 0, refusal("Invalid numeric value %s for %s: it must be a whole number from 1 to 2147483647", clip(value), option)
	}
	return uint32(n), nil
}

// ParseNodeCount reads the value of -N: `4`, `2-4`, with a k or m after a number for 1024 and 1048576.
func ParseNodeCount(value string) (least, most uint32, err error) {
	lo, hi, ranged := strings.Cut(value, "-")
	switch {
	case !ranged:
		hi = lo
	case lo == "": // "-4": at most four
		lo = "1"
	}
	l, ok1 := counted(lo)
	h, ok2 := counted(hi)
	switch {
	case !ok1 || !ok2:
		return 0, 0, usage("%s is not a number of nodes: write 4, or 2-4 for at least 2 and at most 4", clip(value))
	case h < l:
		return 0, 0, usage("%s asks for at most %d and at least %d nodes; the smaller number comes first", clip(value), h, l)
	case h == 0:
		return 0, 0, refusal("%s asks for no node; a job needs at least one", clip(value))
	}
	return l, h, nil
}

func counted(s string) (uint32, bool) {
	shift := 0
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			shift = 10
		case 'm', 'M':
			shift = 20
		}
	}
	if shift > 0 {
		s = s[:len(s)-1]
	}
	if s == "" || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 31-shift)
	return uint32(n) << shift, err == nil
}

// ParseJobID reads `123`, `123_4`, or the array's `123_[1-4]`; tasks is the text after the underscore, without brackets.
func ParseJobID(s string) (job uint32, tasks string, hasTasks bool, ok bool) {
	id, rest, hasTasks := strings.Cut(s, "_")
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil || n == 0 || id[0] == '+' || hasTasks && rest == "" {
		return 0, "", false, false
	}
	if strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") && len(rest) > 2 {
		rest = rest[1 : len(rest)-1]
	}
	return uint32(n), rest, hasTasks, true
}
