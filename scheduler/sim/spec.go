package sim

import (
	"fmt"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/idset"
)

// readSpec reads a submission: a name, then options.
//
//	n= tasks, c= CPUs per task, N= nodes (2, 1-4), t= minutes, tmin=, p= partitions, mem= per node, mempercpu=, memall, pernode= tasks per node
//	gpus= for the job, gres=gpu:a100:2 per node, gpupertask=, excl, ownuser, w= node list, x= excluded, C= constraint, contiguous
//	lic= licences, prefer= features, spread, usemin, persocket= tasks per socket
//	a=0-9%2 array, dep=afterok:1,afterany:2 (or joined by ?), kill, begin=60s, deadline=2h, hold, nice=, priority=, norequeue, nokill, user=
//	run= seconds it runs (0: until told to end), exit= its code, trap= seconds it takes to end, oom, unstartable
func readSpec(words []string, now int64) (*events.JobSpec, uint32, error) {
	if len(words) == 0 {
		return nil, 0, fmt.Errorf("name the job")
	}
	s := &events.JobSpec{Name: words[0], Script: &events.BlobRef{Subject: "blob.1000.sim", Length: 1}}
	uid := uint32(1000)
	err := options(words[1:], func(key, value string) (err error) {
		n, _ := number(value)
		switch key {
		case "n":
			s.Tasks = n
		case "c":
			s.CpusPerTask = n
		case "N":
			least, most, ranged := strings.Cut(value, "-")
			if s.MinNodes, err = number(least); err != nil {
				return err
			}
			s.MaxNodes = s.MinNodes
			if ranged {
				s.MaxNodes, err = number(most)
			}
		case "t":
			s.TimeLimitS = n * 60
		case "ts":
			s.TimeLimitS = n
		case "tmin":
			s.TimeMinS = n * 60
		case "p":
			s.Partition = value
		case "mem":
			s.MemPerNodeMib = uint64(n)
		case "mempercpu":
			s.MemPerCpuMib = uint64(n)
		case "memall":
			s.MemAll = true
		case "pernode":
			s.TasksPerNode = n
		case "percore":
			s.TasksPerCore = n
		case "nomulti":
			s.Nomultithread = true
		case "gpus":
			kind, count, typed := strings.Cut(value, ":")
			if !typed {
				kind, count = "", kind
			}
			if n, err = number(count); err != nil {
				return err
			}
			s.Gres = append(s.Gres, &events.Gres{Name: "gpu", Type: kind, Count: uint64(n), Scope: events.Scope_PER_JOB})
		case "gpupertask":
			s.Gres = append(s.Gres, &events.Gres{Name: "gpu", Count: uint64(n), Scope: events.Scope_PER_TASK})
		case "cpupergpu":
			s.CpusPerGpu = n
		case "gres":
			parts := strings.Split(value, ":")
			g := &events.Gres{Name: parts[0], Count: 1}
			if count, err := number(parts[len(parts)-1]); err == nil && len(parts) > 1 {
				g.Count = uint64(count)
				parts = parts[:len(parts)-1]
			}
			if len(parts) > 1 {
				g.Type = parts[1]
			}
			s.Gres = append(s.Gres, g)
		case "excl":
			s.Exclusive = events.Exclusive_EXCLUSIVE_NODE
		case "contiguous":
			s.Contiguous = true
		case "lic":
			s.Licenses = value
		case "prefer":
			s.Prefer = value
		case "spread":
			s.SpreadJob = true
		case "usemin":
			s.UseMinNodes = true
		case "persocket":
			s.TasksPerSocket = n
		case "host":
			s.SubmitHost = value
		case "ownuser":
			s.Exclusive = events.Exclusive_EXCLUSIVE_USER
		case "w":
			s.NodeList = value
		case "x":
			s.Exclude = value
		case "C":
			s.Constraint = value
		case "a":
			set, throttle, err := idset.ParseArray(value)
			if err != nil {
				return err
			}
			s.Array = &events.ArraySpec{Tasks: wordsOf(set), MaxRunning: uint32(throttle), Text: value}
		case "dep":
			s.Dependencies, s.DependencyAny, err = readDependencies(value)
		case "kill":
			s.KillOnInvalidDependency = true
		case "begin", "deadline":
			d, err := duration(value)
			if err != nil {
				return err
			}
			if key == "begin" {
				s.BeginUs = now + d
			} else {
				s.DeadlineUs = now + d
			}
		case "hold":
			s.Hold = true
		case "nice":
			nice, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return err
			}
			s.Nice = int32(nice)
		case "priority":
			s.Priority, s.HasPriority = n, true
		case "alloc":
			s.Interactive = true
		case "nokill":
			s.NoKill = true
		case "norequeue":
			s.Requeue = events.Choice_CHOICE_NO
		case "user":
			uid = n
		case "run", "exit", "trap", "oom", "unstartable":
			s.Args = append(s.Args, []byte(key+"="+value))
		default:
			err = fmt.Errorf("no such option")
		}
		return err
	})
	return s, uid, err
}

var dependencyKinds = map[string]events.DependencyKind{
	"after": events.DependencyKind_AFTER, "afterok": events.DependencyKind_AFTER_OK, "afternotok": events.DependencyKind_AFTER_NOT_OK,
	"afterany": events.DependencyKind_AFTER_ANY, "aftercorr": events.DependencyKind_AFTER_CORR, "singleton": events.DependencyKind_SINGLETON,
}

// readDependencies reads afterok:1:2,after:3+5 or the same joined by question marks.
func readDependencies(text string) (list []*events.Dependency, anyOf bool, err error) {
	anyOf = strings.Contains(text, "?")
	for term := range strings.SplitSeq(strings.ReplaceAll(text, "?", ","), ",") {
		parts := strings.Split(term, ":")
		kind, known := dependencyKinds[parts[0]]
		if !known {
			return nil, false, fmt.Errorf("no dependency %q", parts[0])
		}
		if kind == events.DependencyKind_SINGLETON {
			list = append(list, &events.Dependency{Kind: kind})
		}
		for _, id := range parts[1:] {
			d := &events.Dependency{Kind: kind}
			id, delay, delayed := strings.Cut(id, "+")
			if delayed {
				if d.DelayMin, err = number(delay); err != nil {
					return nil, false, err
				}
			}
			id, task, hasTask := strings.Cut(id, "_")
			if d.Job, err = number(id); err != nil {
				return nil, false, err
			}
			if hasTask {
				if d.Task, err = number(task); err != nil {
					return nil, false, err
				}
				d.HasTask = true
			}
			list = append(list, d)
		}
	}
	return list, anyOf, nil
}
