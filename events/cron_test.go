package events

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestCronNext goes through testdata/cron.txt: `ZONE AFTER | FIELDS`, and the times that follow, local with their offset.
func TestCronNext(t *testing.T) {
	f, err := os.Open("testdata/cron.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		head, want, ok := strings.Cut(line, " => ")
		where, fields, ok2 := strings.Cut(head, " | ")
		if !ok || !ok2 {
			t.Fatalf("line %d is no case: %s", n, line)
		}
		w := strings.Fields(where)
		loc, err := time.LoadLocation(w[0])
		if err != nil {
			t.Skip("no time zones here: ", err)
		}
		after, err := time.ParseInLocation("2006-01-02T15:04:05", w[1], loc)
		if err != nil {
			t.Fatal(err)
		}
		c, z := cronOf(t, fields), zoneFrom(after)
		var got []string
		at := after.UnixMicro()
		for range strings.Fields(want) {
			if at = c.Next(at, z); at == 0 {
				got = append(got, "never")
				break
			}
			got = append(got, time.UnixMicro(at).In(loc).Format("2006-01-02T15:04-0700"))
		}
		if g := strings.Join(got, " "); g != strings.Join(strings.Fields(want), " ") {
			t.Errorf("line %d: %s\n got %s\nwant %s", n, head, g, want)
		}
	}
}

// cronOf reads fields of numbers, ranges with - and *, parted by commas; a * with a step is written *: and the numbers.
func cronOf(t *testing.T, text string) *Cron {
	t.Helper()
	fields := strings.Fields(text)
	if len(fields) != 5 {
		t.Fatalf("%q has not five fields", text)
	}
	all := []uint64{cronMinutes, cronHours, cronDays, cronMonths, cronWeekdays}
	sets := make([]uint64, 5)
	c := &Cron{}
	for i, f := range fields {
		if f == "*" {
			sets[i] = all[i]
			c.Every |= 1 << i
			c.Starred |= 1 << i
			continue
		}
		if rest, ok := strings.CutPrefix(f, "*:"); ok {
			c.Starred |= 1 << i
			f = rest
		}
		for part := range strings.SplitSeq(f, ",") {
			var from, to int
			if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			for v := from; v <= to; v++ {
				sets[i] |= 1 << v
			}
		}
	}
	c.Minutes, c.Hours, c.Days, c.Months, c.Weekdays = sets[0], uint32(sets[1]), uint32(sets[2]), uint32(sets[3]), uint32(sets[4])
	return c
}

func zoneFrom(at time.Time) *Zone {
	at = at.AddDate(-1, 0, 0)
	_, offset := at.Zone()
	z := &Zone{FromUs: at.UnixMicro(), OffsetS: int32(offset)}
	for range 40 {
		_, end := at.ZoneBounds()
		if end.IsZero() {
			break
		}
		at = end
		_, offset := at.Zone()
		z.Shifts = append(z.Shifts, &ZoneShift{AtUs: at.UnixMicro(), OffsetS: int32(offset)})
	}
	return z
}

// TestCronAgreesWithTheClock: what Next says is met by the clock, lies ahead, and nothing between is met by it, for jobs that go by the
// time that passes.
func TestCronAgreesWithTheClock(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Skip("no time zones here: ", err)
		}
		for _, text := range []string{"* * * * *", "0,30 *:0,2,4,6,8,10,12,14,16,18,20,22 * * *", "*:0,7,14,21,28,35,42,49,56 1-3 * * *", "15 * 29 3,10,11 0", "5 * * * 0"} {
			c := cronOf(t, text)
			for _, day := range []string{"2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"} {
				start, _ := time.ParseInLocation("2006-01-02", day, loc)
				z := zoneFrom(start)
				at, end := start, start.AddDate(0, 0, 3)
				for at.Before(end) {
					next := time.UnixMicro(c.Next(at.UnixMicro(), z)).In(loc)
					for m := at.Truncate(time.Minute).Add(time.Minute); m.Before(end); m = m.Add(time.Minute) {
						met := c.day(time.Date(m.Year(), m.Month(), m.Day(), 0, 0, 0, 0, time.UTC)) && c.Hours>>m.Hour()&1 == 1 && c.Minutes>>m.Minute()&1 == 1
						if met != m.Equal(next) {
							t.Fatalf("%s, %s after %s: next is %s, and %s meets it: %v", zone, text, at, next, m, met)
						}
						if met {
							break
						}
					}
					at = next
				}
			}
		}
	}
}

func TestCronText(t *testing.T) {
	for _, c := range []string{"* * * * *", "0 0-23 * * *", "0,5,10,15 1-3,7 1 1-12 0,6"} {
		if got := cronOf(t, c).Text(); got != c {
			t.Errorf("%q is written %q", c, got)
		}
	}
}

func TestCronCheck(t *testing.T) {
	for text, ok := range map[string]bool{
		"0 0 31 2,4,6,9,11 *": false, "0 0 30 2 *": false, "0 0 29 2 *": true, "0 0 31 4,5 *": true, "0 0 31 2 1": true, "0 0 1 1 *": true,
	} {
		if err := cronOf(t, text).Check(); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, c := range []*Cron{nil, {}, {Minutes: 1 << 60, Hours: 1, Days: 2, Months: 2, Weekdays: 1}, {Minutes: 1, Hours: 1 << 24, Days: 2, Months: 2, Weekdays: 1}, {Minutes: 1, Hours: 1, Days: 1, Months: 2, Weekdays: 1}} {
		if c.Check() == nil {
			t.Errorf("%v passes", c)
		}
		if c.Next(0, nil) != 0 {
			t.Errorf("%v recurs", c)
		}
	}
}
