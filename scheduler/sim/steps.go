package sim

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/hostlist"
)

// step has nodes of a run say that a numbered step has begun there, or with "over" that it has ended.
func (s *Script) step(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a step")
	}
	job, n, _ := strings.Cut(args[0], ".")
	id, err := number(job)
	if err != nil {
		return err
	}
	step, err := number(n)
	if err != nil {
		return err
	}
	j := s.World.Fold.Job(id)
	if j == nil {
		return fmt.Errorf("there is no job %d", id)
	}
	part := &events.StepPart{Name: "task", Tasks: 1, Layout: "Block", Host: "login", Pid: 4711}
	nodes, over, cpu := j.GetAllocation().NodeNames(), false, uint32(0)
	for _, word := range args[1:] {
		key, value, has := strings.Cut(word, "=")
		count := uint32(0)
		if has && key != "name" && key != "nodes" && key != "out" && key != "gpus" {
			if count, err = number(value); err != nil {
				return err
			}
		}
		switch key {
		case "over":
			over = true
		case "cpu":
			cpu = count
		case "nodes":
			if nodes, err = hostlist.Expand(value, hostlist.MaxHosts); err != nil {
				return err
			}
		case "name":
			part.Name = value
		case "out":
			part.StdOut = value
		case "tasks":
			part.Tasks = count
		case "mem":
			part.MemoryMib = uint64(count)
		case "limit":
			part.LimitS = 60 * count
		case "gpus":
			part.Asked = []*events.Gres{{Name: "gpu", Count: 1, Scope: events.Scope_PER_NODE}}
		default:
			return fmt.Errorf("%q: no such option", key)
		}
	}
	for _, name := range nodes {
		x := s.World.byName[name]
		share, _ := j.GetAllocation().ForNode(name)
		if x == nil || share == nil {
			return fmt.Errorf("job %d has no node %s", id, name)
		}
		if over {
			end := &events.StepExited{Job: id, Run: j.Run, Step: step, AtUs: s.World.wall(s.World.now)}
			if cpu != 0 {
				end.Usage = &events.Usage{UserUs: uint64(cpu) * uint64(Second), Node: name}
			}
			x.tellFact(&events.NodeFact{Kind: &events.NodeFact_Exited{Exited: end}}, nil)
		} else {
			one := part.CloneVT()
			one.Cpus = share.GetCpus()
			if len(one.Asked) > 0 {
				one.Gres = share.GetGres()
			}
			x.tellFact(&events.NodeFact{Kind: &events.NodeFact_Started{Started: &events.StepStarted{Job: id, Run: j.Run, Step: step, AtUs: s.World.wall(s.World.now), Part: one}}}, nil)
		}
		x.say()
	}
	s.World.Advance(max(s.opts.MinDelay, Millisecond))
	return nil
}
