package admit

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
)

// minutes writes a time limit in seconds for people.
func minutes(s uint32) string {
	switch {
	case s == events.Unlimited:
		return "UNLIMITED"
	case s%60 == 0 && s < 2*3600:
		return fmt.Sprintf("%d minutes", s/60)
	case s%3600 == 0:
		return fmt.Sprintf("%d hours", s/3600)
	}
	return fmt.Sprintf("%d seconds", s)
}

// anyOf says whether a comma separated list names one of the values.
func anyOf(list string, values []string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if slices.Contains(values, name) {
			return true
		}
	}
	return false
}
