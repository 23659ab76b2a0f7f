package conf

import (
	"fmt"
	"slices"
	"strings"
)

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
