package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseWhen reads a point in time as --begin, --deadline and the -S and -E of sacct take it: `now`, `now+1hour`,
// `16:00`, `3:30pm`, `tomorrow`, `noon`, `midnight`, `fika`, `teatime`, `MMDD[YY]`, `MM/DD[/YY]`, `MM.DD[.YY]`,
// `YYYY-MM-DD[THH:MM[:SS]]`, `utsSECONDS`, and a date with a time in either order. Local time is that of now.
// A time without a date is the next one, or the last one if past is set; so is a date without a year.
func ParseWhen(s string, now time.Time, past bool) (time.Time, error) {
	p := whenParser{rest: s, now: now, past: past}
	at, ok := p.parse()
	if !ok || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, fmt.Errorf("%s is not a time: write now, now+COUNT[seconds|minutes|hours|days|weeks], HH:MM[:SS][am|pm], today, tomorrow, noon, midnight, MMDD[YY], MM/DD[/YY] or YYYY-MM-DD[THH:MM[:SS]]", clip(s))
	}
	return at, nil
}

type whenParser struct {
	rest    string
	now     time.Time
	past    bool
	hasDate bool
	hasYear bool
	hasTime bool
	date    [3]int // year, month, day
	clock   [3]int
}

var clockWords = []struct {
	word string
	hour int
	any  bool // in capitals, too
}{{"midnight", 0, true}, {"noon", 12, true}, {"fika", 15, true}, {"teatime", 16, false}}

func (p *whenParser) parse() (time.Time, bool) {
	p.blanks()
	if p.rest == "" {
		return time.Time{}, false
	}
	if p.wordIn("now", true) {
		return p.offset()
	}
	if p.wordIn("uts", true) {
		n, err := strconv.ParseInt(p.rest, 10, 64)
		return time.Unix(n, 0).In(p.now.Location()), err == nil && n >= 0
	}
	for p.blanks(); p.rest != ""; p.blanks() {
		if !p.term() {
			return time.Time{}, false
		}
		if p.hasDate && (len(p.rest) > 1 && (p.rest[0] == 'T' || p.rest[0] == '-')) { // between a date and its time
			p.rest = p.rest[1:]
		}
	}
	return p.result(), true
}

func (p *whenParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *whenParser) word(w string) bool { return p.wordIn(w, false) }

// wordIn takes a word off the rest; capitals: it may be written in them.
func (p *whenParser) wordIn(w string, capitals bool) bool {
	if len(p.rest) < len(w) || p.rest[:len(w)] != w && !(capitals && strings.EqualFold(p.rest[:len(w)], w)) {
		return false
	}
	p.rest = p.rest[len(w):]
	return true
}

// number takes digits off the rest; width is how many there were.
func (p *whenParser) number(most int) (n, width int) {
	for width < len(p.rest) && width < most && p.rest[width] >= '0' && p.rest[width] <= '9' {
		n = n*10 + int(p.rest[width]-'0')
		width++
	}
	p.rest = p.rest[width:]
	return n, width
}

func (p *whenParser) offset() (time.Time, bool) {
	p.blanks()
	if p.rest == "" {
		return p.now, true
	}
	sign := 1
	switch {
	case p.word("+"):
	case p.word("-"):
		sign = -1
	default:
		return p.now, false
	}
	p.blanks()
	n, width := p.number(9)
	if width == 0 {
		return p.now, false
	}
	p.blanks()
	unit := strings.TrimSuffix(p.rest, "s")
	n *= sign
	switch unit {
	case "", "second":
		return p.now.Add(time.Duration(n) * time.Second), true
	case "minute":
		return p.now.Add(time.Duration(n) * time.Minute), n < 1<<27 && n > -1<<27
	case "hour":
		return p.now.Add(time.Duration(n) * time.Hour), n < 1<<21 && n > -1<<21
	case "day":
		return p.now.AddDate(0, 0, n), n < 1<<21 && n > -1<<21
	case "week":
		return p.now.AddDate(0, 0, 7*n), n < 1<<18 && n > -1<<18
	}
	return p.now, false
}

// term reads one date or one time of day.
func (p *whenParser) term() bool {
	for _, c := range clockWords {
		if p.wordIn(c.word, c.any) {
			p.clock = [3]int{c.hour}
			return p.once(&p.hasTime)
		}
	}
	today := p.now
	switch {
	case p.word("today"):
	case p.word("tomorrow"):
		today = today.AddDate(0, 0, 1)
	default:
		return p.digits()
	}
	p.date = [3]int{today.Year(), int(today.Month()), today.Day()}
	p.hasYear = true
	return p.once(&p.hasDate)
}

func (p *whenParser) once(has *bool) bool {
	fresh := !*has
	*has = true
	return fresh
}

func (p *whenParser) digits() bool {
	n, width := p.number(7)
	if width == 0 || p.rest == "" && width != 4 && width != 6 {
		return false
	}
	if p.rest != "" {
		switch sep := p.rest[0]; {
		case sep == ':' && width <= 2:
			return p.timeOfDay(n)
		case (sep == '/' || sep == '.') && width <= 2:
			return p.slashed(n, sep)
		case sep == '-' && width == 4 && p.isoAhead():
			return p.iso(n)
		}
	}
	switch width {
	case 4:
		p.date = [3]int{0, n / 100, n % 100}
	case 6:
		p.date = [3]int{2000 + n%100, n / 10000, n / 100 % 100}
		p.hasYear = true
	default:
		return false
	}
	return p.dateOK() && p.once(&p.hasDate)
}

// isoAhead tells YYYY-MM-DD from MMDD-HH:MM.
func (p *whenParser) isoAhead() bool {
	month := strings.TrimLeft(p.rest[1:], "0123456789")
	return strings.HasPrefix(month, "-")
}

func (p *whenParser) dateOK() bool {
	return p.date[1] >= 1 && p.date[1] <= 12 && p.date[2] >= 1 && p.date[2] <= 31
}

func (p *whenParser) iso(year int) bool {
	p.rest = p.rest[1:]
	month, w1 := p.number(2)
	if !p.word("-") {
		return false
	}
	day, w2 := p.number(2)
	p.date, p.hasYear = [3]int{year, month, day}, true
	return w1 == 2 && w2 == 2 && p.dateOK() && p.once(&p.hasDate)
}

func (p *whenParser) slashed(month int, sep byte) bool {
	p.rest = p.rest[1:]
	day, w := p.number(2)
	p.date = [3]int{0, month, day}
	if w > 0 && p.rest != "" && p.rest[0] == sep {
		p.rest = p.rest[1:]
		year, w := p.number(4)
		switch w {
		case 2:
			year += 2000
		case 4:
		default:
			return false
		}
		p.date[0], p.hasYear = year, true
	}
	return w > 0 && p.dateOK() && p.once(&p.hasDate)
}

func (p *whenParser) timeOfDay(hour int) bool {
	p.rest = p.rest[1:]
	minute, w := p.number(2)
	second := 0
	if w != 2 { // 1:5 may be five past, or half past
		return false
	}
	if p.word(":") {
		if second, w = p.number(2); w != 2 {
			return false
		}
	}
	p.blanks()
	if len(p.rest) >= 2 {
		half := strings.ToLower(p.rest[:2])
		if half == "am" || half == "pm" {
			if hour < 1 || hour > 12 {
				return false
			}
			if hour %= 12; half == "pm" {
				hour += 12
			}
			p.rest = p.rest[2:]
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return false
	}
	p.clock = [3]int{hour, minute, second}
	return p.once(&p.hasTime)
}

func (p *whenParser) result() time.Time {
	at := func(year, month, day int) time.Time {
		return time.Date(year, time.Month(month), day, p.clock[0], p.clock[1], p.clock[2], 0, p.now.Location())
	}
	if !p.hasDate {
		t := at(p.now.Year(), int(p.now.Month()), p.now.Day())
		if !p.past && !t.After(p.now) {
			t = at(p.now.Year(), int(p.now.Month()), p.now.Day()+1)
		} else if p.past && t.After(p.now) {
			t = at(p.now.Year(), int(p.now.Month()), p.now.Day()-1)
		}
		return t
	}
	if p.hasYear {
		return at(p.date[0], p.date[1], p.date[2])
	}
	year, month, day := p.now.Year(), p.date[1], p.date[2]
	this := month*100 + day
	nowDay := int(p.now.Month())*100 + p.now.Day()
	if !p.past && this < nowDay {
		year++
	} else if p.past && this > nowDay {
		year--
	}
	return at(year, month, day)
}
