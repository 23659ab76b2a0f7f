package events

import (
	"strconv"
	"strings"
)

// Describe says in words what settings change: name=value, in a fixed order, separated by commas.
func (set *PolicySettings) Describe() string {
	if set == nil {
		return ""
	}
	var out []string
	text := func(name string, v *string) {
		if v != nil {
			out = append(out, name+"='"+*v+"'")
		}
	}
	list := func(name string, l *ListChange) {
		if l == nil {
			return
		}
		if l.Replace {
			out = append(out, name+"='"+strings.Join(l.Names, ",")+"'")
		}
		if len(l.Add) > 0 {
			out = append(out, name+"+='"+strings.Join(l.Add, ",")+"'")
		}
		if len(l.Remove) > 0 {
			out = append(out, name+"-='"+strings.Join(l.Remove, ",")+"'")
		}
	}
	text("description", set.Description)
	text("organization", set.Organization)
	text("parent_acct", set.Parent)
	text("def_acct", set.DefaultAccount)
	text("def_wckey", set.DefaultWckey)
	text("name", set.NewName)
	text("comment", set.Comment)
	if set.AdminLevel != nil {
		out = append(out, "admin_level="+strconv.Itoa(int(set.GetAdminLevel())+1))
	}
	for _, l := range set.Limits {
		name := strings.ToLower(l.Limit.String())
		switch {
		case l.Clear:
			out = append(out, name+"=NULL")
		case len(l.Tres) > 0:
			s := make([]string, 0, len(l.Tres))
			for _, t := range l.Tres {
				value := strconv.FormatUint(t.Count, 10)
				if t.Clear {
					value = "NULL"
				}
				s = append(s, t.Tres+"="+value)
			}
			out = append(out, name+"='"+strings.Join(s, ",")+"'")
		default:
			out = append(out, name+"="+strconv.FormatUint(l.Value, 10))
		}
	}
	text("def_qos", set.DefaultQos)
	list("qos", set.Qos)
	list("preempt", set.Preempt)
	list("flags", set.Flags)
	text("preempt_mode", set.PreemptMode)
	return strings.Join(out, ", ")
}
