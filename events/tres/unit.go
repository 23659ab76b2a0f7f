package tres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Unit says in which unit an amount is written.
type Unit byte

const (
	// Auto goes up to the largest unit in which the amount is a whole or a half number: 16000M, 62.50G, 1G.
	Auto Unit = 0
	// Shortest goes up to the largest unit in which the amount is at least 1, with two decimals where needed: 15.62G.
	Shortest Unit = 1
	// Plain leaves the amount in the unit it is kept in.
	Plain Unit = 2
	// A fixed unit.
	Kilo, Mega, Giga, Tera, Peta Unit = 'K', 'M', 'G', 'T', 'P'
)

const suffixes = "KMGTPE"

// ParseUnit reads the value of sacct's --units.
func ParseUnit(s string) (Unit, bool) {
	if len(s) != 1 || !strings.Contains(suffixes[:5], strings.ToUpper(s)) {
		return 0, false
	}
	return Unit(strings.ToUpper(s)[0]), true
}

// Memory writes an amount of MiB: `100M`, `62.50G`. Zero has no unit.
func Memory(mib int64, unit Unit) string { return Format(float64(mib), 'M', unit) }

// Format writes an amount kept in the unit base (a letter of KMGTP, or 0 for pieces) in the unit wanted.
func Format(amount float64, base byte, unit Unit) string {
	if amount == 0 {
		return "0"
	}
	at := -1 // index into suffixes
	if base != 0 {
		at = strings.IndexByte(suffixes, base)
	}
	switch unit {
	case Plain:
	case Auto, Shortest:
		for at < len(suffixes)-1 && math.Abs(amount) >= 1024 && (unit == Shortest || math.Mod(math.Trunc(amount), 512) == 0) {
			amount /= 1024
			at++
		}
	default:
		to := strings.IndexByte(suffixes, byte(unit))
		for ; at < to; at++ {
			amount /= 1024
		}
		for ; at > to; at-- {
			amount *= 1024
		}
	}
	suffix := ""
	if at >= 0 {
		suffix = suffixes[at : at+1]
	}
	if amount == math.Trunc(amount) {
		return strconv.FormatFloat(amount, 'f', 0, 64) + suffix
	}
	return strconv.FormatFloat(amount, 'f', 2, 64) + suffix
}

// MaxMemory is the largest amount of memory that is accepted, in MiB: more than any cluster has, and far from overflow.
const MaxMemory = int64(1) << 50

// ParseMemory reads an amount of memory as the options do, and returns MiB: a whole number with a suffix K M G T (or KB
// MB GB TB) of any case, M if there is none. KiB are rounded up.
func ParseMemory(s string) (mib int64, err error) {
	digits, suffix := splitSuffix(s)
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' {
		return 0, fmt.Errorf("%q is not an amount of memory: a whole number and K, M, G or T (without one of them, M)", clip(s))
	}
	shift := 0
	switch strings.ToUpper(suffix) {
	case "K", "KB":
		if n > math.MaxInt64-1023 {
			return 0, fmt.Errorf("%q is more memory than can be counted", clip(s))
		}
		return (n + 1023) / 1024, nil
	case "", "M", "MB":
	case "G", "GB":
		shift = 10
	case "T", "TB":
		shift = 20
	default:
		return 0, fmt.Errorf("%q is not an amount of memory: the unit %q is not K, M, G or T", clip(s), clip(suffix))
	}
	if n > MaxMemory>>shift {
		return 0, fmt.Errorf("%q is more memory than can be counted", clip(s))
	}
	return n << shift, nil
}

// ParseCount reads a number of pieces: a whole number with an optional suffix K M G T P, powers of 1024.
func ParseCount(s string) (int64, error) {
	digits, suffix := splitSuffix(s)
	n, err := strconv.ParseInt(digits, 10, 64)
	at := -1
	if suffix != "" {
		if at = strings.IndexByte(suffixes[:5], strings.ToUpper(suffix)[0]); at < 0 || len(suffix) > 1 {
			err = strconv.ErrSyntax
		}
	}
	if err != nil || n < 0 || digits[0] == '+' {
		return 0, fmt.Errorf("%q is not a whole number", clip(s))
	}
	if shift := 10 * (at + 1); n > math.MaxInt64>>shift>>10 {
		return 0, fmt.Errorf("%q is too large", clip(s))
	} else {
		return n << shift, nil
	}
}

// splitSuffix cuts the letters off the end; digits is never empty.
func splitSuffix(s string) (digits, suffix string) {
	i := len(s)
	for i > 0 && (s[i-1] < '0' || s[i-1] > '9') {
		i--
	}
	if i == 0 {
		return "x", s
	}
	return s[:i], s[i:]
}

func clip(s string) string {
	if len(s) > 40 {
		s = s[:37] + "..."
	}
	return s
}
