package events

import (
	"fmt"
	"strconv"
	"strings"
)

// License is so many of a licence.
type License struct {
	Name  string
	Count uint32
}

// maxLicenses is how many licences one list may name.
const maxLicenses = 64

// ParseLicenses reads a list of licences as --licenses and Licenses= have it: NAME, NAME:COUNT or NAME=COUNT, joined by
// commas or semicolons: all of them; or joined by bars (any): one of them. Of a name that comes twice the counts are summed.
// A count of 0 is kept: it asks for nothing, and the name must exist all the same.
func ParseLicenses(text string) (list []License, any bool, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, false, nil
	}
	any = strings.Contains(text, "|")
	if any && strings.ContainsAny(text, ",;") {
		return nil, false, fmt.Errorf("%.60q joins licences by | and by commas; use one of the two", text)
	}
next:
	for _, term := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == '|' }) {
		term = strings.TrimSpace(term)
		l := License{Name: term, Count: 1}
		if i := strings.LastIndexAny(term, ":=*"); i >= 0 {
			n, err := strconv.ParseUint(term[i+1:], 10, 31)
			if err != nil {
				return nil, false, fmt.Errorf("%.60q is not NAME or NAME:COUNT", term)
			}
			l = License{Name: term[:i], Count: uint32(n)}
		}
		if l.Name == "" || strings.ContainsAny(l.Name, " \t\n'\"():=*") {
			return nil, false, fmt.Errorf("%.60q is not NAME or NAME:COUNT", term)
		}
		for i := range list {
			if list[i].Name == l.Name && !any {
				if uint64(list[i].Count)+uint64(l.Count) > 1<<31-1 {
					return nil, false, fmt.Errorf("%.60q asks for more licences than can be counted", text)
				}
				list[i].Count += l.Count
				continue next
			}
		}
		if list = append(list, l); len(list) > maxLicenses {
			return nil, false, fmt.Errorf("more than %d licences are named", maxLicenses)
		}
	}
	if len(list) == 0 {
		return nil, false, fmt.Errorf("%.60q names no licence", text)
	}
	return list, any, nil
}

// FormatLicenses writes licences as NAME:COUNT joined by commas.
func FormatLicenses(list []License) string {
	var b strings.Builder
	for i, l := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%d", l.Name, l.Count)
	}
	return b.String()
}
