package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
)

// exitCodes reads exit codes, 0 to 255, and ranges of them, separated by commas: 1-9,18. They are kept one by one, ascending.
func exitCodes(field func(*events.Config) *[]uint32) func(*builder, string) error {
	return func(b *builder, v string) error {
		var codes []uint32
		for _, word := range list(v) {
			from, to, ranged := strings.Cut(word, "-")
			if !ranged {
				to = from
			}
			lo, err := strconv.ParseUint(from, 10, 8)
			if err != nil {
				return fmt.Errorf("%q is no exit code: they are 0 to 255, or ranges such as 1-9, separated by commas", clip(word))
			}
			hi, err := strconv.ParseUint(to, 10, 8)
			if err != nil || hi < lo {
				return fmt.Errorf("%q is no range of exit codes: one is FROM-TO, within 0 to 255", clip(word))
			}
			for code := lo; code <= hi; code++ {
				codes = append(codes, uint32(code))
			}
		}
		slices.Sort(codes)
		*field(b.Config) = slices.Compact(codes)
		return nil
	}
}
