package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm/once"
)

// Clock prints times as the commands do: local, without a zone, and by SLURM_TIME_FORMAT.
type Clock struct {
	Now    time.Time // also the zone
	Format string    // SLURM_TIME_FORMAT: empty or `standard`, `relative`, or a strftime format
}

// Time prints microseconds since 1970; zero as none (Unknown, N/A, None …).
func (c Clock) Time(us int64, none string) string {
	if us == 0 {
		return none
	}
	t := time.UnixMicro(us).In(c.Now.Location())
	switch c.Format {
	case "", "standard":
		return t.Format("2006-01-02T15:04:05")
	case "relative":
		return c.relative(t)
	}
	return Strftime(t, c.Format)
}

func (c Clock) relative(t time.Time) string {
	day := func(t time.Time) int64 {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
	}
	switch delta := day(t) - day(c.Now); {
	case delta == 0:
		return t.Format("15:04:05")
	case delta == -1:
		return t.Format("Ystday 15:04")
	case delta == 1:
		return t.Format("Tomorr 15:04")
	case delta < -365 || delta > 365:
		return t.Format("2 Jan 2006")
	case delta < -1 || delta > 6:
		return t.Format("2 Jan 15:04")
	}
	return t.Format("Mon 15:04")
}

// strftime directives that time.Format has an equal for.
var directives = once.Value[map[byte]string]{Make: func() map[byte]string {
	return map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan",
		'B': "January", 'e': "_2", 'j': "002", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006",
		'x': "01/02/06", 'X': "15:04:05", 'r': "03:04:05 PM",
	}

}}

// Strftime prints a time by a format of strftime(3). Directives it does not know stay as they are.
func Strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		switch d := format[i]; d {
		case '%':
			b.WriteByte('%')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case 'k':
			fmt.Fprintf(&b, "%2d", t.Hour())
		case 'u':
			fmt.Fprintf(&b, "%d", (int(t.Weekday())+6)%7+1)
		case 'w':
			fmt.Fprintf(&b, "%d", int(t.Weekday()))
		default:
			if layout, ok := directives.Get()[d]; ok {
				b.WriteString(t.Format(layout))
			} else {
				b.WriteByte('%')
				b.WriteByte(d)
			}
		}
	}
	return b.String()
}

// Short prints seconds as squeue and sinfo do: `0:17`, `1:00:00`, `1-02:03:04`.
func Short(seconds int64) string {
	if seconds < 0 {
		return "INVALID"
	}
	d, h, m, s := split(seconds)
	switch {
	case d > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", d, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// Long prints seconds as scontrol and sacct do: `00:00:17`, `1-02:03:04`.
func Long(seconds int64) string {
	if seconds < 0 {
		return "INVALID"
	}
	d, h, m, s := split(seconds)
	if d > 0 {
		return fmt.Sprintf("%d-%02d:%02d:%02d", d, h, m, s)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

func split(seconds int64) (d, h, m, s int64) {
	return seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60
}

// CPUTime prints microseconds of CPU time as sacct does: `00:00.012` under an hour, then `01:02:03` and `1-02:03:04`; no time
// is `00:00:00`.
func CPUTime(us uint64) string {
	seconds := int64(us / 1e6)
	if us < 1000 {
		return "00:00:00"
	}
	if seconds < 3600 {
		return fmt.Sprintf("%02d:%02d.%03d", seconds/60, seconds%60, us/1000%1000)
	}
	return Long(seconds)
}
