package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// Unlimited is a time limit, or a count, without end.
const Unlimited uint32 = 0xffffffff

// ParseLimit reads a time limit and returns seconds, whole minutes always: `MIN`, `MIN:SEC`, `HOURS:MIN:SEC`,
// `DAYS-HOURS`, `DAYS-HOURS:MIN`, `DAYS-HOURS:MIN:SEC`, or Unlimited for `UNLIMITED`, `INFINITE` and negative numbers. Seconds round
// up to the next minute. 0 means that no limit was asked for.
func ParseLimit(s string) (uint32, error) {
	switch strings.ToLower(s) {
	case "unlimited", "infinite":
		return Unlimited, nil
	}
	if minutes, negative := strings.CutPrefix(s, "-"); negative && minutes != "" && strings.Trim(minutes, "0123456789") == "" {
		return Unlimited, nil // Slurm means -1; a number below it makes a limit of thousands of years there
	}
	seconds, err := parseDuration(s)
	if err != nil {
		return 0, err
	}
	minutes := (seconds + 59) / 60
	if minutes*60 >= int64(Unlimited) {
		return 0, fmt.Errorf("%s is longer than 136 years; write UNLIMITED for no limit", clip(s))
	}
	return uint32(minutes * 60), nil
}

// ParseDelay is like ParseLimit, to the second.
func ParseDelay(s string) (uint32, error) {
	n, err := ParseLimit(s)
	if err != nil || n == Unlimited {
		return n, err
	}
	seconds, err := parseDuration(s)
	return uint32(seconds), err
}

// parseDuration reads the shapes of ParseLimit but for the words, and returns seconds.
func parseDuration(s string) (int64, error) {
	bad := fmt.Errorf("%s is not a time: write minutes, MIN:SEC, HOURS:MIN:SEC, DAYS-HOURS, DAYS-HOURS:MIN or DAYS-HOURS:MIN:SEC", clip(s))
	days, rest, dashed := strings.Cut(s, "-")
	if dashed && rest == "" {
		rest = "0" // "1-" is one day
	}
	if !dashed {
		rest, days = days, "0"
	}
	fields := append([]string{days}, strings.Split(rest, ":")...)
	if len(fields) > 4 {
		return 0, bad
	}
	var n [4]int64
	for i, f := range fields {
		if f == "" || len(f) > 12 || strings.Trim(f, "0123456789") != "" {
			return 0, bad
		}
		n[i], _ = strconv.ParseInt(f, 10, 64)
	}
	if dashed {
		return n[0]*86400 + n[1]*3600 + n[2]*60 + n[3], nil
	}
	switch len(fields) {
	case 2: // minutes
		return n[1] * 60, nil
	case 3: // minutes and seconds
		return n[1]*60 + n[2], nil
	}
	return n[1]*3600 + n[2]*60 + n[3], nil
}
