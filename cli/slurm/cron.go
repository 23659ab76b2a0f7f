package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

// cronField is one of the five fields that say when a line of a crontab runs.
type cronField struct {
	what  string
	first int      // from here on steps count
	last  int      // the highest number; it is the lowest again if wraps
	low   int      // the lowest number
	wraps bool     // the highest number stands for 0
	names []string // from low on, or from 1 on
}

var cronFields = once.Value[[]cronField]{Make: func() []cronField {
	return []cronField{
		{what: "minute", last: 60, wraps: true},
		{what: "hour", last: 24, wraps: true},
		{what: "day of the month", first: 1, low: 1, last: 31},
		{what: "month", first: 1, low: 1, last: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
		{what: "day of the week", first: 1, last: 7, wraps: true, names: strings.Fields("mon tue wed thu fri sat sun")},
	}

}}

// cronWords are the short ways to say when. What of the five fields is * counts as with the fields written out.
var cronWords = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"yearly": "0 0 1 1 *", "annually": "0 0 1 1 *", "monthly": "0 0 1 * *", "weekly": "0 0 * * 0", "daily": "0 0 * * *", "midnight": "0 0 * * *", "hourly": "0 0-23 * * *",
	}

}}

// parseCron reads when a line of a crontab runs: five fields, or a word such as @daily. It returns the rest of the line, the
// command.
func parseCron(line string) (c *events.Cron, command string, err error) {
	rest := strings.TrimLeft(line, " \t")
	if word, ok := strings.CutPrefix(rest, "@"); ok {
		end := strings.IndexAny(word, " \t")
		if end < 0 {
			end = len(word)
		}
		fields, known := cronWords.Get()[strings.ToLower(word[:end])]
		if !known {
			return nil, "", fmt.Errorf("@%.20s is no time; write @hourly, @daily, @midnight, @weekly, @monthly, @yearly or five fields", word[:end])
		}
		if c, _, err = parseCron(fields + " -"); err != nil {
			return nil, "", err
		}
		if strings.EqualFold(word[:end], "hourly") {
			c.Starred |= events.CronHour
		}
		rest = word[end:]
	} else {
		c = &events.Cron{}
		var sets [5]uint64
		for i := range cronFields.Get() {
			end := strings.IndexAny(rest, " \t")
			if end <= 0 {
				return nil, "", fmt.Errorf("the line ends before its %s; a line has five fields that say when, and a command behind them", cronFields.Get()[i].what)
			}
			if sets[i], err = cronFields.Get()[i].parse(rest[:end]); err != nil {
				return nil, "", err
			}
			if rest[:end] == "*" {
				c.Every |= 1 << i
			}
			if rest[0] == '*' {
				c.Starred |= 1 << i
			}
			rest = strings.TrimLeft(rest[end:], " \t")
		}
		c.Minutes, c.Hours, c.Days, c.Months, c.Weekdays = sets[0], uint32(sets[1]), uint32(sets[2]), uint32(sets[3]), uint32(sets[4])
	}
	if command = strings.TrimSpace(rest); command == "" {
		return nil, "", fmt.Errorf("no command stands behind the times")
	}
	return c, command, c.Check()
}

// parse reads numbers, names, ranges and steps. As in Slurm a step counts from the field's first number, not from that of the
// range: 5-59/10 is 10, 20, 30, 40 and 50.
func (f *cronField) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		part, step, stepped := strings.Cut(item, "/")
		var mask uint64
		switch from, to, ranged := strings.Cut(part, "-"); {
		case part == "*":
			mask = 1<<(f.last+1) - 1
		case part == "":
			return 0, fmt.Errorf("the %s %.40q holds nothing where a number should be", f.what, text)
		default:
			low, err := f.number(from, ranged)
			if err != nil {
				return 0, err
			}
			high := low
			if ranged {
				if high, err = f.number(to, false); err != nil {
					return 0, err
				}
				if high <= low {
					return 0, fmt.Errorf("the %s %.40q goes from %d to %d; the second must be the greater", f.what, text, low, high)
				}
			}
			mask = (1<<(high+1) - 1) &^ (1<<low - 1)
		}
		if stepped {
			n, err := strconv.Atoi(step)
			if err != nil || n <= 1 || n > f.last || step[0] == '+' {
				return 0, fmt.Errorf("%.20q is no step for the %s; write a number from 2 to %d", step, f.what, f.last)
			}
			var steps uint64
			for i := f.first; i <= f.last; i += n {
				steps |= 1 << i
			}
			mask &= steps
		}
		set |= mask
	}
	if top := uint64(1) << f.last; f.wraps && set&top != 0 {
		set = set&^top | 1
	}
	set &^= 1<<f.low - 1
	if set == 0 {
		return 0, fmt.Errorf("no %s meets %.40q", f.what, text)
	}
	return set, nil
}

// number reads a number or a name. Sunday is 0 where it begins a range.
func (f *cronField) number(text string, begins bool) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			if n := i + 1; !f.wraps || n < f.last || !begins {
				return n, nil
			}
			return 0, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.last || text[0] == '+' || text[0] == '-' {
		return 0, fmt.Errorf("%.40q is no %s; write a number from %d to %d%s", text, f.what, f.low, f.last, f.named())
	}
	return n, nil
}

func (f *cronField) named() string {
	if f.names == nil {
		return ""
	}
	return ", or a name such as " + f.names[0]
}
