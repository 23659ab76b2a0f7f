package slurm

import (
	"slices"

	"stint/cli/slurm/once"
	"stint/events"
)

// ofComponent are the effects of options that ask for resources: they count for the component that they are given to. The others
// count for the components behind it too, until one says otherwise.
var ofComponent = once.Value[map[string]bool]{Make: func() map[string]bool {
	return map[string]bool{
		"constraint": true, "contiguous": true, "cores-per-socket": true, "cpus-per-gpu": true, "cpus-per-task": true, "distribution": true,
		"exclusive": true, "extra-node-info": true, "gpu-bind": true, "gpus": true, "gpus-per-node": true, "gpus-per-socket": true, "gpus-per-task": true,
		"gres": true, "gres-flags": true, "licenses": true, "mail-type": true, "mail-user": true, "mem-per-cpu": true, "mem-per-gpu": true, "mincpus": true,
		"no-kill": true, "nodefile": true, "nodelist": true, "nodes": true, "ntasks": true, "ntasks-per-core": true, "ntasks-per-gpu": true,
		"ntasks-per-node": true, "ntasks-per-socket": true, "overcommit": true, "oversubscribe": true, "partition": true, "prefer": true,
		"reservation": true, "signal": true, "sockets-per-node": true, "spread-job": true, "switches": true, "threads-per-core": true, "tmp": true,
		"tres-per-task": true, "use-min-nodes": true, "array": true,
	}

}}

// components makes a submission of what is said of each component, in the script and on the command line. q is the request of
// the first, with the script.
func (q *request) components(written, own [][]Given, environ []Given) (*Submission, error) {
	var carried []Given
	for k := range own {
		c := q
		if k > 0 {
			c = newRequest(q.in)
			c.table, c.own = q.table, q.own
			c.Script, c.ignorePBS = q.Script, q.ignorePBS
			c.Spec.Name, c.Spec.Command, c.Spec.Args, c.Spec.Interactive = q.name, q.Spec.Command, q.Spec.Args, q.Spec.Interactive
		} else {
			q.name = q.Spec.Name
		}
		all := slices.Concat(carried, written[k])
		for _, g := range environ {
			if !slices.ContainsFunc(carried, func(before Given) bool { return before.Option.Effect == g.Option.Effect }) {
				all = append(all, g)
			}
		}
		all = append(all, own[k]...)
		for _, g := range all {
			if err := c.apply(g); err != nil {
				return nil, err
			}
		}
		if err := c.finish(); err != nil {
			return nil, err
		}
		if len(own) > 1 && c.Spec.Array != nil {
			return nil, &Failure{Text: "a heterogeneous job is no array, and has none: leave --array out, or submit its components as jobs of their own", Exit: 1}
		}
		if k > 0 {
			q.More = append(q.More, &Submission{Spec: c.Spec, Script: c.Script, Environ: c.Environ})
			for _, note := range c.Notes {
				if !slices.Contains(q.Notes, note) {
					q.Notes = append(q.Notes, note)
				}
			}
		}
		for _, g := range slices.Concat(written[k], own[k]) {
			if !ofComponent.Get()[g.Option.Effect] {
				g.Source = FromEarlier
				carried = append(carried, g)
			}
		}
	}
	return &q.Submission, nil
}

// Components are the parts of a submission, in order: one, or those of a heterogeneous job.
func (s *Submission) Components() []*Submission { return append([]*Submission{s}, s.More...) }

// Specs are what the components ask for, in order.
func (s *Submission) Specs() []*events.JobSpec {
	var list []*events.JobSpec
	for _, c := range s.Components() {
		list = append(list, c.Spec)
	}
	return list
}
