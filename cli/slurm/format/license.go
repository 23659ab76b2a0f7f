package format

import (
	"fmt"
	"sort"

	"stint/events"
)

// License is a licence of the cluster's configuration.
type License struct {
	Name        string
	Total, Used uint64
}

// Licenses reads the licences of a configuration (Licenses=matlab:4,ansys:2; a name alone is one), by name. held are those that
// jobs hold now, one entry for each job and licence.
func Licenses(c *events.Config, held []events.License) []License {
	var all []License
	for _, l := range c.GetLicenses() {
		all = append(all, License{Name: l.GetName(), Total: uint64(l.GetCount())})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	for _, l := range held {
		for i := range all {
			if all[i].Name == l.Name {
				all[i].Used += uint64(l.Count)
			}
		}
	}
	return all
}

// free is how many may still be taken: none where the configuration has fewer by now than jobs hold.
func (l License) free() uint64 { return l.Total - min(l.Used, l.Total) }

// JSON is the licence as scontrol show licenses --json has it.
func (l License) JSON() any {
	return object{
		{"LicenseName", l.Name}, {"Total", l.Total}, {"Used", l.Used}, {"Free", l.free()}, {"Remote", false}, {"Reserved", 0},
		{"LastConsumed", 0}, {"LastDeficit", 0}, {"LastUpdate", 0},
	}
}

// Record is the licence as scontrol show licenses prints it.
func (l License) Record(oneLine bool) string {
	text := fmt.Sprintf("Total=%d Used=%d Free=%d Reserved=0 Remote=no", l.Total, l.Used, l.free())
	if oneLine {
		return fmt.Sprintf("LicenseName=%s %s\n", l.Name, text)
	}
	return fmt.Sprintf("LicenseName=%s\n    %s\n", l.Name, text)
}
