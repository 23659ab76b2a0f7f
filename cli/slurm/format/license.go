package format

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"stint/events"
)

// License is a licence of the cluster's configuration.
type License struct {
	Name        string
	Total, Used uint64
}

// Licenses reads the licences of a configuration (Licenses=matlab:4,ansys:2; a name alone is one), by name. used are the requests of jobs that
// hold theirs.
func Licenses(c *events.Config, used []string) []License {
	var all []License
	for _, s := range c.GetSettings() {
		if s.GetKey() == "Licenses" {
			all = nil
			for name, n := range licenseCounts(s.GetValue()) {
				all = append(all, License{Name: name, Total: n})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	for _, request := range used {
		for name, n := range licenseCounts(request) {
			for i := range all {
				if all[i].Name == name {
					all[i].Used += n
				}
			}
		}
	}
	return all
}

func licenseCounts(list string) map[string]uint64 {
	counts := map[string]uint64{}
	for _, term := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' || r == '|' }) {
		name, text, counted := strings.Cut(strings.ReplaceAll(term, "*", ":"), ":")
		n, err := strconv.ParseUint(text, 10, 32)
		if !counted {
			n, err = 1, nil
		}
		if err == nil && name != "" {
			counts[name] += n
		}
	}
	return counts
}

// Record is the licence as scontrol show licenses prints it.
func (l License) Record(oneLine bool) string {
	free := l.Total - min(l.Used, l.Total)
	text := fmt.Sprintf("Total=%d Used=%d Free=%d Reserved=0 Remote=no", l.Total, l.Used, free)
	if oneLine {
		return fmt.Sprintf("LicenseName=%s %s\n", l.Name, text)
	}
	return fmt.Sprintf("LicenseName=%s\n    %s\n", l.Name, text)
}
