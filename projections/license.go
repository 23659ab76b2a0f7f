package projections

import (
	"slices"
	"strings"

	"stint/events"
)

// licensed are the licences that a job holds while it has a run: what it was given, or, where there was no choice, all it
// asked for.
func (j *Job) licensed() []events.License {
	text := j.GetLicensesAlloc()
	if text == "" {
		text = j.GetSpec().GetLicenses()
	}
	if text == "" {
		return nil
	}
	list, any, err := events.ParseLicenses(text)
	if err != nil || any {
		return nil
	}
	return list
}

// HeldLicenses are the licences that a job holds now: none unless it has a run.
func (j *Job) HeldLicenses() []events.License {
	if !j.Live() {
		return nil
	}
	return j.licensed()
}

// LicensesUsed is how many of a licence the jobs with a run hold.
func (s *state) LicensesUsed(name string) uint32 {
	if i, ok := slices.BinarySearchFunc(s.licenses, name, byLicense); ok {
		return s.licenses[i].Count
	}
	return 0
}

// License is how many of a licence are configured, and whether it is configured at all.
func (s *state) License(name string) (uint32, bool) {
	for _, l := range s.config.GetLicenses() {
		if l.GetName() == name {
			return l.GetCount(), true
		}
	}
	return 0, false
}

// UserExclusive is how many jobs, waiting or with a run, share nodes with jobs of their own user alone, and how many partitions
// have that of all their jobs.
func (s *state) UserExclusive() int { return s.alone + s.layout.owned }

// OneUser says whether a job, in the partition where it runs or may, shares nodes with jobs of its own user alone.
func OneUser(j *Job, p *events.PartitionDef) bool {
	return j.GetSpec().GetExclusive() == events.Exclusive_EXCLUSIVE_USER || p.GetExclusiveUser()
}

// sharing keeps that number in step with a job that changes.
func (c *Cluster) sharing(before, after *Job) {
	count := func(j *Job) int {
		if j.GetSpec().GetExclusive() == events.Exclusive_EXCLUSIVE_USER && (j.Waits() || j.Live() || j.GetCompleting()) {
			return 1
		}
		return 0
	}
	if before != nil {
		c.alone -= count(before)
	}
	if after != nil {
		c.alone += count(after)
	}
}

func byLicense(l events.License, name string) int { return strings.Compare(l.Name, name) }

// licence keeps the counts in step with a job that changes. The list is replaced, never changed: views share it.
func (c *Cluster) license(before, after *Job) {
	var gone, come []events.License
	if before.Live() {
		gone = before.licensed()
	}
	if after.Live() {
		come = after.licensed()
	}
	if len(gone) == 0 && len(come) == 0 || slices.Equal(gone, come) {
		return
	}
	next := slices.Clone(c.licenses)
	add := func(l events.License, sign int64) {
		i, ok := slices.BinarySearchFunc(next, l.Name, byLicense)
		if !ok {
			next = slices.Insert(next, i, events.License{Name: l.Name})
		}
		next[i].Count = uint32(max(0, int64(next[i].Count)+sign*int64(l.Count)))
		if next[i].Count == 0 {
			next = slices.Delete(next, i, i+1)
		}
	}
	for _, l := range come {
		add(l, 1)
	}
	for _, l := range gone {
		add(l, -1)
	}
	c.licenses = next
}

// FreeLicenses is what a job would be given of the licences it asks for, as NAME:COUNT joined by commas (empty: it asks for
// none, or all it asks for without a choice), or the first that is short. taken are those that others are about to be given.
func FreeLicenses(r Reader, spec *events.JobSpec, taken map[string]uint64) (given string, short *events.License) {
	if spec.GetLicenses() == "" {
		return "", nil
	}
	list, any, err := events.ParseLicenses(spec.GetLicenses())
	if err != nil {
		return "", &events.License{Name: spec.GetLicenses()}
	}
	for i, l := range list {
		have, known := r.License(l.Name)
		free := known && uint64(r.LicensesUsed(l.Name))+taken[l.Name]+uint64(l.Count) <= uint64(have)
		switch {
		case free && any:
			return events.FormatLicenses(list[i : i+1]), nil
		case !free && !any:
			return "", &list[i]
		}
	}
	if any {
		return "", &list[0]
	}
	return "", nil
}
