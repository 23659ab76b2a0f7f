package admit

import (
	"slices"
	"strings"

	"stint/events"
)

// setConfig changes how much the controllers log. Administrators only.
func (d *Desk) setConfig(m *events.SetConfig) []*events.Fact {
	if !d.admin() {
		return d.refused(refuse(events.Code_ACCESS_DENIED, "only an administrator may say how much is logged"))
	}
	for _, w := range slices.Concat([]string{m.Debug}, m.FlagsOn, m.FlagsOff) {
		if r := texts(64, "a level or flag of logging", w); r != nil {
			return d.refused(r)
		}
		if strings.ContainsAny(w, ", \t\n#=") {
			return d.refused(refuse(events.Code_INVALID_CONFIG, "%q is no level or flag of logging", w))
		}
	}
	var settings []*events.Setting
	if m.Debug != "" {
		settings = append(settings, &events.Setting{Key: "SlurmctldDebug", Value: m.Debug})
	}
	if len(m.FlagsOn)+len(m.FlagsOff) > 0 {
		var flags []string
		for _, s := range d.r.Config().GetSettings() {
			if strings.EqualFold(s.GetKey(), "DebugFlags") && s.GetValue() != "(null)" {
				flags = strings.FieldsFunc(s.GetValue(), func(r rune) bool { return r == ',' })
			}
		}
		is := func(f string) func(string) bool { return func(o string) bool { return strings.EqualFold(f, o) } }
		for _, f := range m.FlagsOn {
			if !slices.ContainsFunc(flags, is(f)) {
				flags = append(flags, f)
			}
		}
		for _, f := range m.FlagsOff {
			flags = slices.DeleteFunc(flags, is(f))
		}
		value := "(null)"
		if len(flags) > 0 {
			value = strings.Join(flags, ",")
		}
		settings = append(settings, &events.Setting{Key: "DebugFlags", Value: value})
	}
	if len(settings) == 0 {
		return d.refused(refuse(events.Code_INVALID_CONFIG, "say a level, or a flag to set or clear"))
	}
	a := &act{d: d, touched: 1}
	a.did(&events.Fact{Kind: &events.Fact_ConfigSet{ConfigSet: &events.ConfigSet{Settings: settings, ByUid: d.who.Uid}}})
	return a.done()
}
