package commands

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

// settings is what add and modify were told to set, sorted by what it belongs to.
type settings struct {
	assoc *events.PolicySettings // of associations, or of a QoS
	own   *events.PolicySettings // of the account or user itself
	any   bool                   // anything was given for assoc
	anyOf bool                   // anything was given for own
}

// setting reads one key of add or set. known is false for a key that is none; an error says what is wrong with the value.
// Nothing is done where one value is wrong: an account without the limit that was meant for it would have none.
func (m *manager) setting(to *settings, kind string, t slurm.Term) (known bool, err error) {
	key := func(name string, least int) bool { return slurm.Keyed(t.Key, name, least) }
	text := func() *string { v := strings.ToLower(t.Value); return &v }
	isQos := kind == "qos"
	switch {
	case kind == "account" && key("description", 1), isQos && key("description", 1):
		set := to.own
		if isQos {
			set = to.assoc
			to.any = true
		}
		set.Description, to.anyOf = text(), true
		return true, nil
	case kind == "account" && key("organization", 1):
		to.own.Organization, to.anyOf = text(), true
		return true, nil
	case kind == "account" && key("parent", 4):
		to.assoc.Parent, to.any = text(), true
		return true, nil
	case kind == "user" && key("adminlevel", 2):
		l, err := adminLevel(t.Value)
		to.own.AdminLevel, to.anyOf = &l, true
		return true, err
	case kind == "user" && key("defaultaccount", 8):
		to.own.DefaultAccount, to.anyOf = text(), true
		return true, nil
	case kind == "user" && key("defaultwckey", 8):
		to.own.DefaultWckey, to.anyOf = text(), true
		return true, nil
	case kind == "user" && key("newname", 1):
		to.own.NewName, to.anyOf = text(), true
		return true, nil
	case !isQos && key("defaultqos", 8):
		v := text()
		if *v == "-1" || *v == "" {
			*v = ""
		} else if m.p.QosNamed(*v) == nil {
			return true, fmt.Errorf("You gave a bad default qos '%s'; use 'list qos' to get a complete list", *v)
		}
		to.assoc.DefaultQos, to.any = v, true
		return true, nil
	case !isQos && key("qoslevel", 1):
		l, err := slurm.ParseListChange(to.assoc.Qos, t.Op, t.Value, false)
		if err == nil {
			err = m.knownQos(l)
		}
		to.assoc.Qos, to.any = l, true
		return true, err
	case !isQos && key("comment", 3) && m.w.Release() >= 2302:
		v := t.Value
		to.assoc.Comment, to.any = &v, true
		return true, nil
	case isQos && key("flags", 2):
		return true, m.flags(to, t)
	case isQos && (strings.EqualFold(t.Key, "preempt") || !key("preemptmode", 8) && !key("preemptexempttime", 8) && key("preempt", 3)):
		l, err := slurm.ParseListChange(to.assoc.Preempt, t.Op, t.Value, false)
		if err == nil {
			err = m.knownQos(l)
		}
		to.assoc.Preempt, to.any = l, true
		return true, err
	case isQos && key("preemptmode", 8):
		v := text()
		switch *v {
		case "cluster", "-1":
			*v = ""
		case "off", "cancel", "requeue", "suspend", "gang", "within", "suspend,gang", "gang,suspend":
		default:
			return true, fmt.Errorf("PreemptMode %q is not one of cancel, cluster, gang, off, requeue, suspend and within", t.Value)
		}
		to.assoc.PreemptMode, to.any = v, true
		return true, nil
	case isQos && key("rawusage", 4):
		return true, fmt.Errorf("usage is the ledger's, made from the log; it cannot be set")
	}
	s := slurm.FindSetting(t.Key, isQos)
	if s == nil {
		return false, nil
	}
	c, err := s.Change(t.Value, format.TresNames(m.cfg))
	if err != nil {
		return true, err
	}
	to.assoc.Limits = append(slices.DeleteFunc(to.assoc.Limits, func(o *events.LimitChange) bool {
		return o.Limit == c.Limit && !projections.VectorLimit(c.Limit)
	}), c)
	to.any = true
	return true, nil
}

func adminLevel(v string) (events.AdminLevel, error) {
	switch {
	case slurm.Keyed(v, "administrator", 1), slurm.Keyed(v, "superuser", 1):
		return events.AdminLevel_ADMIN_ADMINISTRATOR, nil
	case slurm.Keyed(v, "operator", 1):
		return events.AdminLevel_ADMIN_OPERATOR, nil
	case slurm.Keyed(v, "none", 1):
		return events.AdminLevel_ADMIN_NONE, nil
	}
	return 0, fmt.Errorf("AdminLevel %q is not one of None, Operator and Administrator", v)
}

func (m *manager) knownQos(l *events.ListChange) error {
	for _, n := range slices.Concat(l.Names, l.Add, l.Remove) {
		if m.p.QosNamed(n) == nil {
			return fmt.Errorf("there is no QOS %s; `sacctmgr show qos` lists those there are", n)
		}
	}
	return nil
}

// errTold is for what was said on stdout already.
var errTold = errors.New("")

func (m *manager) flags(to *settings, t slurm.Term) error {
	known := slurm.FlagsIn(m.w.Release())
	var names []string
	op := t.Op
	if t.Value == "-1" {
		to.assoc.Flags, to.any = &events.ListChange{Replace: true}, true
		return nil
	}
	for _, n := range slurm.SplitNames(t.Value, true) {
		i := slices.IndexFunc(known, func(f string) bool { return slurm.Keyed(n, f, min(4, len(f))) })
		if i < 0 {
			m.printf(" Unknown QOS flag used in:\n  '%s'\n Valid QOS flags are\n  '%s'\n", t.Value, strings.Join(known, ","))
			return errTold
		}
		names = append(names, known[i])
	}
	l, err := slurm.ParseListChange(to.assoc.Flags, op, strings.Join(names, ","), true)
	to.assoc.Flags, to.any = l, true
	return err
}

// shown prints the settings of associations (width 13) or of a QoS (24).
func (m *manager) shown(set *events.PolicySettings, qos bool) {
	width := 13
	if qos {
		width = 24
	}
	line := func(label, value string) {
		if len(label) > width {
			m.printf("  %s= %s\n", label, value)
			return
		}
		m.printf("  %-*s = %s\n", width, label, value)
	}
	if qos && set.Flags != nil {
		line("Flags", listText(set.Flags))
	}
	done := map[events.Limit]bool{}
	for i := range slurm.Settings {
		s := &slurm.Settings[i]
		if done[s.Limit] {
			continue
		}
		for _, c := range set.Limits {
			if c.Limit != s.Limit {
				continue
			}
			done[s.Limit] = true
			value := "NONE"
			if !c.Clear {
				value = setText(c)
			}
			if s.Limit == events.Limit_PRIORITY_VALUE && qos && set.Preempt != nil {
				line("Preempt", listText(set.Preempt))
			}
			line(s.Label(qos), value)
		}
	}
	if set.Parent != nil {
		line("Parent", set.GetParent())
	}
	if set.Qos != nil {
		line("QOS", listText(set.Qos))
	}
	if set.DefaultQos != nil {
		line("DefQOS", set.GetDefaultQos())
	}
	if qos && set.Preempt != nil && !done[events.Limit_PRIORITY_VALUE] {
		line("Preempt", listText(set.Preempt))
	}
	if qos && set.PreemptMode != nil {
		line("PreemptMode", set.GetPreemptMode())
	}
}

// setText is what a limit is set to, as it is shown when it is.
func setText(c *events.LimitChange) string {
	switch c.Limit {
	case events.Limit_GRACE_TIME:
		return strconv.FormatUint(c.Value, 10)
	case events.Limit_USAGE_FACTOR, events.Limit_USAGE_THRESHOLD, events.Limit_LIMIT_FACTOR:
		return fmt.Sprintf("%.4f", float64(c.Value)/1e6)
	}
	return format.LimitText(c.Limit, &events.LimitValue{Value: c.Value, Tres: c.Tres}, "")
}

func listText(l *events.ListChange) string {
	var out []string
	out = append(out, l.Names...)
	for _, n := range l.Add {
		out = append(out, "+"+n)
	}
	for _, n := range l.Remove {
		out = append(out, "-"+n)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func empty(set *events.PolicySettings) bool { return set.EqualVT(&events.PolicySettings{}) }
