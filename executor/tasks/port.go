package tasks

import (
	"strconv"
	"strings"
)

// PortRange reads SrunPortRange: the first and the last port at which a launcher may listen. Not ok: there is no such range.
func PortRange(text string) (from, to uint32, ok bool) {
	a, b, _ := strings.Cut(text, "-")
	lo, err := strconv.ParseUint(strings.TrimSpace(a), 10, 16)
	hi, err2 := strconv.ParseUint(strings.TrimSpace(b), 10, 16)
	return uint32(lo), uint32(hi), err == nil && err2 == nil && 0 < lo && lo <= hi
}
