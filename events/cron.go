package events

import (
	"errors"
	"math/bits"
	"strings"
	"time"
)

// The fields of a Cron, as bits of its Every and Starred.
const (
	CronMinute uint32 = 1 << iota
	CronHour
	CronDay
	CronMonth
	CronWeekday
)

// What may be set in each field of a Cron.
const (
	cronMinutes  = 1<<60 - 1
	cronHours    = 1<<24 - 1
	cronDays     = 1<<32 - 2
	cronMonths   = 1<<13 - 2
	cronWeekdays = 1<<7 - 1
)

// daysOfMonths is how many days each month has at most, from 1.
var daysOfMonths = [...]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// Check says why there is no minute at which a job with these fields would ever run; nil: there is one.
func (c *Cron) Check() error {
	for _, f := range []struct {
		set, allowed uint64
		what         string
	}{
		{c.GetMinutes(), cronMinutes, "minute"}, {uint64(c.GetHours()), cronHours, "hour"}, {uint64(c.GetDays()), cronDays, "day of the month"},
		{uint64(c.GetMonths()), cronMonths, "month"}, {uint64(c.GetWeekdays()), cronWeekdays, "day of the week"},
	} {
		if f.set == 0 || f.set&^f.allowed != 0 {
			return errors.New("the times hold no " + f.what + ", or one that is none")
		}
	}
	if c.either() || c.Every&CronDay != 0 {
		return nil // there are days of the week in every month
	}
	first := bits.TrailingZeros32(c.Days)
	for month := 1; month <= 12; month++ {
		if c.Months>>month&1 == 1 && first <= daysOfMonths[month] {
			return nil
		}
	}
	return errors.New("none of the months has any of the days")
}

// either says whether a day that meets one of day of the month and day of the week is enough: both were given.
func (c *Cron) either() bool { return c.GetEvery()&(CronDay|CronWeekday) == 0 }

// Text is the five fields as crontab(5) writes them, every number in full but for ranges: what Slurm shows as CrontabSpec.
func (c *Cron) Text() string {
	fields := make([]string, 5)
	for i, set := range []uint64{c.GetMinutes(), uint64(c.GetHours()), uint64(c.GetDays()), uint64(c.GetMonths()), uint64(c.GetWeekdays())} {
		if fields[i] = "*"; c.GetEvery()>>i&1 == 0 {
			fields[i] = Words{set}.String()
		}
	}
	return strings.Join(fields, " ")
}

// Offset is how many seconds east of UTC a zone is at a time in seconds since 1970.
func (z *Zone) Offset(at int64) int64 {
	offset := z.GetOffsetS()
	for _, s := range z.GetShifts() {
		if at*1_000_000 < s.GetAtUs() {
			break
		}
		offset = s.GetOffsetS()
	}
	return int64(offset)
}

// clock is a local time of day as if it were UTC, whose calendar needs no zone.
func (z *Zone) clock(at int64) time.Time { return time.Unix(at+z.Offset(at), 0).UTC() }

// moment is when clocks show a local time: the first time, where it is shown twice; where clocks pass over it, as long after the
// change as it lies behind it.
func (z *Zone) moment(local time.Time) int64 {
	seconds := local.Unix()
	offset := int64(z.GetOffsetS())
	for _, s := range z.GetShifts() {
		change, next := s.GetAtUs()/1_000_000, int64(s.GetOffsetS())
		if seconds-offset < change || seconds-next < change {
			break // before the change, or what it passes over
		}
		offset = next
	}
	return seconds - offset
}

// years is how far ahead the next time of a Cron is looked for: 29 February may be eight years away.
const years = 9

// Next is the first minute after a time at which a job recurs, both in microseconds; 0: not within nine years.
//
// When clocks change it is as with cron: a job at fixed hours and minutes that clocks pass over runs right after the change, and one
// at a time that they show twice runs the first time only. A job with a * for hours or minutes goes by the time that passes: it
// runs in every hour, also in one that comes again, and not in one that there is not.
func (c *Cron) Next(afterUs int64, z *Zone) int64 {
	from := (afterUs/1_000_000/60 + 1) * 60
	if c.Check() != nil {
		return 0
	}
	if c.Starred&(CronMinute|CronHour) != 0 {
		return c.nextPassing(from, z) * 1_000_000
	}
	return c.nextFixed(from, z) * 1_000_000
}

// day says whether a job recurs on a day.
func (c *Cron) day(local time.Time) bool {
	if c.Months>>local.Month()&1 == 0 {
		return false
	}
	inMonth, inWeek := c.Days>>local.Day()&1 == 1, c.Weekdays>>local.Weekday()&1 == 1
	if c.either() {
		return inMonth || inWeek
	}
	return (inMonth || c.Every&CronDay != 0) && (inWeek || c.Every&CronWeekday != 0)
}

// nextPassing goes from minute to minute, hour to hour, day to day, whichever is the longest that cannot hold one.
func (c *Cron) nextPassing(at int64, z *Zone) int64 {
	for end := at + years*366*86400; at < end; {
		local := z.clock(at)
		next := at
		switch {
		case !c.day(local):
			next = z.moment(time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, time.UTC))
		case c.Hours>>local.Hour()&1 == 0:
			next = at + 3600 - int64(local.Minute()*60+local.Second())
			if z.Offset(next-1) != z.Offset(at) { // clocks change within the hour
				next = at + 60
			}
		case c.Minutes>>local.Minute()&1 == 0 || local.Second() != 0:
			next = at + 60 - int64(local.Second())
		default:
			return at
		}
		at = max(next, at+1)
	}
	return 0
}

// nextFixed looks at the days one by one, and on the first that has a time that lies ahead takes the soonest of these.
func (c *Cron) nextFixed(from int64, z *Zone) int64 {
	local := z.clock(from)
	for i := -1; i < years*366; i++ { // the day before: clocks may have passed over its last hour
		day := time.Date(local.Year(), local.Month(), local.Day()+i, 0, 0, 0, 0, time.UTC)
		if !c.day(day) {
			continue
		}
		soonest := int64(0)
		for hours := c.Hours; hours != 0; hours &= hours - 1 {
			for minutes := c.Minutes; minutes != 0; minutes &= minutes - 1 {
				at := z.moment(day.Add(time.Duration(bits.TrailingZeros32(hours))*time.Hour + time.Duration(bits.TrailingZeros64(minutes))*time.Minute))
				if at >= from && (soonest == 0 || at < soonest) {
					soonest = at
				}
			}
		}
		if soonest != 0 {
			return soonest
		}
	}
	return 0
}
