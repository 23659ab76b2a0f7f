package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/events"
)

// apply gives an association, a copy, its new settings.
func (c *change) apply(a *Association, set *events.PolicySettings) error {
	a.ChangedUs = c.at
	if set == nil {
		return nil
	}
	for _, l := range set.Limits {
		if l.Limit >= events.Limit_MAX_JOBS_PER_USER {
			return fmt.Errorf("%s is a limit of QoS, not of associations", l.Limit)
		}
	}
	var err error
	if a.Limits, err = limited(a.Limits, set.Limits); err != nil {
		return err
	}
	if set.Parent != nil && a.Id != 0 {
		if err := c.move(a, set.GetParent()); err != nil {
			return err
		}
	}
	if l := set.Qos; l != nil {
		if err := c.known(l); err != nil {
			return err
		}
		if l.Replace {
			a.HasQos, a.Qos = len(l.Names) > 0, union(nil, l.Names)
			a.QosAdd, a.QosRemove = nil, nil
			if len(a.Qos) == 0 {
				a.Qos = nil
			}
		}
		switch {
		case a.HasQos:
			a.Qos = slices.DeleteFunc(union(a.Qos, l.Add), func(q string) bool { return slices.Contains(l.Remove, q) })
		default:
			a.QosAdd = slices.DeleteFunc(union(a.QosAdd, l.Add), func(q string) bool { return slices.Contains(l.Remove, q) })
			a.QosRemove = slices.DeleteFunc(union(a.QosRemove, l.Remove), func(q string) bool { return slices.Contains(l.Add, q) })
		}
	}
	if set.DefaultQos != nil {
		name := set.GetDefaultQos()
		if name != "" && c.QosNamed(name) == nil {
			return fmt.Errorf("there is no QoS %s", name)
		}
		a.DefaultQos = name
	}
	if set.Comment != nil {
		a.Comment = set.GetComment()
	}
	// A default must be one that may be used, of this association and of all that inherit from it.
	if a.DefaultQos != "" && (set.DefaultQos != nil) && !slices.Contains(c.AllowedQos(a), a.DefaultQos) {
		return fmt.Errorf("QoS %s is to be the default of %s, which may not use it", a.DefaultQos, cmp.Or(a.User, a.Account))
	}
	return nil
}

// move puts an account under another one.
func (c *change) move(a *Association, parent string) error {
	if a.User != "" {
		return fmt.Errorf("a user has no parent: add an association with the other account")
	}
	up := c.Association(a.Cluster, parent, "", "")
	switch {
	case a.Parent == 0:
		return fmt.Errorf("the root account has nothing above it")
	case up == nil:
		return fmt.Errorf("there is no account %s on cluster %s", parent, a.Cluster)
	}
	for above := up; above != nil; above = c.associations.get(above.Parent) {
		if above.Id == a.Id {
			return fmt.Errorf("account %s is below %s, so it cannot be above it", parent, a.Account)
		}
	}
	if c.depth(up)+c.height(a.Id) > maxDepth {
		return fmt.Errorf("the account tree would be more than %d deep", maxDepth)
	}
	a.Parent = up.Id
	return nil
}

func (c *change) height(id uint32) int {
	most := 0
	for _, below := range c.Below(id) {
		most = max(most, c.height(below))
	}
	return most + 1
}

func (c *change) known(l *events.ListChange) error {
	for _, list := range [][]string{l.Names, l.Add, l.Remove} {
		for _, name := range list {
			if c.QosNamed(name) == nil {
				return fmt.Errorf("there is no QoS %s", name)
			}
		}
	}
	return nil
}

// applyQos gives a QoS, a copy, its new settings.
func (c *change) applyQos(q *Qos, set *events.PolicySettings) error {
	q.ChangedUs = c.at
	if set == nil {
		return nil
	}
	for _, l := range set.Limits {
		switch l.Limit {
		case events.Limit_SHARES, events.Limit_MAX_JOBS, events.Limit_MAX_JOBS_ACCRUE, events.Limit_MAX_SUBMIT, events.Limit_MAX_TRES_RUN_MINS:
			return fmt.Errorf("%s is a limit of associations, not of QoS", l.Limit)
		}
	}
	var err error
	if q.Limits, err = limited(q.Limits, set.Limits); err != nil {
		return err
	}
	if l := set.Preempt; l != nil {
		if err := c.known(l); err != nil {
			return err
		}
		q.Preempt = listed(q.Preempt, l)
		if slices.Contains(q.Preempt, q.Name) {
			return fmt.Errorf("QoS %s cannot preempt itself", q.Name)
		}
		if name := c.circle(q); name != "" {
			return fmt.Errorf("QoS %s cannot preempt %s, which preempts it", q.Name, name)
		}
	}
	if set.Flags != nil {
		q.Flags = listed(q.Flags, set.Flags)
	}
	if set.PreemptMode != nil {
		q.PreemptMode = set.GetPreemptMode()
	}
	if set.Description != nil {
		q.Description = set.GetDescription()
	}
	return nil
}

// circle is a QoS by which q, with its list as it is here, would preempt itself; empty: there is none.
func (c *change) circle(q *Qos) string {
	seen := map[string]bool{}
	var reaches func(name string) bool
	reaches = func(name string) bool {
		if name == q.Name {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		return slices.ContainsFunc(c.QosNamed(name).GetPreempt(), reaches)
	}
	for _, name := range q.Preempt {
		if reaches(name) {
			return name
		}
	}
	return ""
}

// listed is a list after a change, in alphabetical order.
func listed(list []string, l *events.ListChange) []string {
	if l.Replace {
		list = l.Names
	}
	out := slices.DeleteFunc(union(list, l.Add), func(s string) bool { return slices.Contains(l.Remove, s) })
	if len(out) == 0 {
		return nil
	}
	return out
}

// VectorLimit says whether a limit is one per resource.
func VectorLimit(l events.Limit) bool {
	return strings.Contains(l.String(), "TRES")
}

// limited is a list of limits after changes, ascending.
func limited(list []*events.LimitValue, changes []*events.LimitChange) ([]*events.LimitValue, error) {
	out := slices.Clone(list)
	for _, l := range changes {
		if _, known := events.Limit_name[int32(l.Limit)]; !known || l.Limit == events.Limit_LIMIT_NONE {
			return nil, fmt.Errorf("this version knows no limit %d", l.Limit)
		}
		i, have := slices.BinarySearchFunc(out, l.Limit, func(v *events.LimitValue, l events.Limit) int { return cmp.Compare(v.Limit, l) })
		next := &events.LimitValue{Limit: l.Limit, Value: l.Value}
		gone := l.Clear || l.Limit == events.Limit_SHARES && l.Value == 1 // one share is what everybody has
		if VectorLimit(l.Limit) {
			next.Value = 0
			if have && !l.Clear {
				next.Tres = slices.Clone(out[i].Tres)
			}
			for _, t := range l.Tres {
				next.Tres = slices.DeleteFunc(next.Tres, func(o *events.TresCount) bool { return o.Tres == t.Tres })
				if !t.Clear {
					next.Tres = append(next.Tres, &events.TresCount{Tres: t.Tres, Count: t.Count})
				}
			}
			sortTres(next.Tres)
			gone = len(next.Tres) == 0
		} else if len(l.Tres) > 0 {
			return nil, fmt.Errorf("%s is one number, not one per resource", l.Limit)
		}
		switch {
		case gone && have:
			out = slices.Delete(out, i, i+1)
		case gone:
		case have:
			out[i] = next
		default:
			out = slices.Insert(out, i, next)
		}
	}
	return out, nil
}
