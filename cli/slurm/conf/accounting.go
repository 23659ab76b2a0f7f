package conf

import (
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm/once"
)

// enforcements are the words of AccountingStorageEnforce, each with what it implies.
var enforcements = once.Value[map[string][]string]{Make: func() map[string][]string {
	return map[string][]string{
		"associations": nil,
		"limits":       {"associations"},
		"nojobs":       {"nosteps"},
		"nosteps":      nil,
		"qos":          {"associations"},
		"safe":         {"associations", "limits"},
		"wckeys":       {"associations"},
	}

}}

// accountingEnforce reads AccountingStorageEnforce: what submissions are held to.
func (b *builder) accountingEnforce(v string) error {
	b.Config.AccountingEnforce = nil
	add := func(word string) {
		for _, w := range append([]string{word}, enforcements.Get()[word]...) {
			if !slices.Contains(b.Config.AccountingEnforce, w) {
				b.Config.AccountingEnforce = append(b.Config.AccountingEnforce, w)
			}
		}
	}
	for _, word := range list(v) {
		switch w := strings.ToLower(word); w {
		case "0", "none", "no":
		case "1":
			add("associations")
		case "2":
			add("limits")
		case "3":
			add("limits")
			add("wckeys")
		case "all":
			for _, w := range []string{"associations", "limits", "qos", "safe", "wckeys"} {
				add(w)
			}
		case "assoc", "association":
			add("associations")
		case "limit":
			add("limits")
		case "wckey":
			add("wckeys")
		default:
			if _, known := enforcements.Get()[w]; !known {
				return fmt.Errorf("%q is not one of associations, limits, nojobs, nosteps, qos, safe, wckeys, all and none", clip(word))
			}
			add(w)
		}
	}
	slices.Sort(b.Config.AccountingEnforce)
	return nil
}

// accountingTRES reads AccountingStorageTRES: what is counted besides what always is. Its order numbers them, from 1001 on.
func (b *builder) accountingTRES(v string) error {
	b.Config.AccountingTres = nil
	for _, name := range list(v) {
		name = strings.ToLower(name)
		switch kind, rest, typed := strings.Cut(name, "/"); {
		case typed && rest == "", !typed && !slices.Contains([]string{"cpu", "mem", "energy", "node", "billing", "vmem", "pages"}, kind),
			typed && !slices.Contains([]string{"gres", "license", "bb", "ic", "fs", "interconnect"}, kind):
			return fmt.Errorf("%q is no resource that can be counted: gres/NAME, gres/NAME:TYPE, license/NAME and the like", clip(name))
		}
		if !slices.Contains(b.Config.AccountingTres, name) {
			b.Config.AccountingTres = append(b.Config.AccountingTres, name)
		}
	}
	return nil
}
