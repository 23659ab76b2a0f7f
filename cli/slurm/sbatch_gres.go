package slurm

import (
	"fmt"
	"strings"

	"stint/events"
	"stint/events/tres"
)

// gresFlags reads --gres-flags: how the GPUs of a node go with its cores, and how shared ones are dealt out.
func (q *request) gresFlags(g Given) error {
	words := []string{"enforce-binding", "disable-binding"}
	if q.in.Release >= 2311 {
		words = append(words, "one-task-per-sharing", "multiple-tasks-per-sharing")
	}
	q.Spec.BindGres = events.Choice_CHOICE_DEFAULT
	for f := range strings.SplitSeq(strings.ToLower(g.Value), ",") {
		chosen := events.Choice_CHOICE_DEFAULT
		switch {
		case f == words[0]:
			chosen = events.Choice_CHOICE_YES
		case f == words[1]:
			chosen = events.Choice_CHOICE_NO
		case len(words) > 2 && (f == words[2] || f == words[3]):
			q.note("--gres-flags=%s is about shared GPUs (shards), which there are none of here", f)
			continue
		default:
			return usage("%s is not a flag for --gres-flags: known are %s%s", clip(f), strings.Join(words, ", "), mean(f, words))
		}
		if q.Spec.BindGres != events.Choice_CHOICE_DEFAULT && q.Spec.BindGres != chosen {
			return usage("--gres-flags: %s and %s exclude each other; give one of them", words[0], words[1])
		}
		q.Spec.BindGres = chosen
	}
	return nil
}

// tresPerTask reads --tres-per-task: `cpu=2`, `gres/gpu:a100=1`, `license/matlab=1`, with : as good as =. CPUs and generic resources are as if
// the options for a task's own had named them; licences are counted once the number of tasks is known.
func (q *request) tresPerTask(g Given) error {
	q.Spec.TresPerTask, q.perTaskCPUs, q.perTaskLicenses = nil, 0, nil
	delete(q.gres, "tres-per-task")
	var devices []*events.Gres
	for _, term := range strings.Split(g.Value, ",") {
		i := strings.LastIndexAny(term, ":=")
		if i < 0 {
			return usage("%s in --tres-per-task is not a resource and its amount, such as cpu=2 or gres/gpu=1", clip(term))
		}
		name, amount := strings.ToLower(term[:i]), term[i+1:]
		n, err := tres.ParseCount(amount)
		if err != nil || n < 1 || n > 1<<30 {
			return usage("--tres-per-task: %s in %s is not a count", clip(amount), clip(term))
		}
		kind, rest, _ := strings.Cut(strings.Replace(name, "gres:", "gres/", 1), "/")
		switch {
		case kind == "cpu" && rest == "":
			q.perTaskCPUs = uint32(n)
			q.Spec.TresPerTask = append(q.Spec.TresPerTask, fmt.Sprintf("cpu=%d", n))
		case kind == "gres" && rest != "":
			device, model, _ := strings.Cut(rest, ":")
			if !gresWord(device) || model != "" && !gresWord(model) {
				return usage("--tres-per-task: %s is not a generic resource: write gres/NAME=COUNT or gres/NAME:TYPE=COUNT", clip(term))
			}
			devices = append(devices, &events.Gres{Name: device, Type: model, Count: uint64(n), Scope: events.Scope_PER_TASK})
		case kind == "license" && rest != "":
			q.perTaskLicenses = append(q.perTaskLicenses, &events.LicenseDef{Name: term[strings.Index(term, "/")+1 : i], Count: uint32(n)})
			q.Spec.TresPerTask = append(q.Spec.TresPerTask, fmt.Sprintf("license/%s=%d", term[strings.Index(term, "/")+1:i], n))
		default:
			return usage("--tres-per-task: %s is not counted for tasks: known are cpu, gres/NAME[:TYPE] and license/NAME", clip(name))
		}
	}
	list, err := mergeGres(devices, g.Value)
	if len(list) > 0 {
		q.gres["tres-per-task"] = list
	}
	return err
}

// ofTasks lets --tres-per-task count as the options for what each task has. Where both say something, they have to say the same.
func (q *request) ofTasks() error {
	s := q.Spec
	if n := q.perTaskCPUs; n > 0 {
		if s.CpusPerTask > 0 && s.CpusPerTask != n {
			return refusal("--cpus-per-task=%d and --tres-per-task=cpu=%d ask for different numbers of CPUs for a task; give one of them", s.CpusPerTask, n)
		}
		s.CpusPerTask = n
	}
	for _, g := range q.gres["tres-per-task"] {
		if g.Name != "gpu" {
			continue
		}
		for _, have := range q.gres["gpus-per-task"] {
			if have.Type != g.Type || have.Count != g.Count {
				return refusal("--gpus-per-task and --tres-per-task ask for different GPUs for a task; give one of them")
			}
		}
	}
	if list := q.gres["tres-per-task"]; len(list) > 0 && len(q.gres["gpus-per-task"]) == 0 {
		for _, g := range list {
			if g.Name == "gpu" {
				q.gres["gpus-per-task"] = append(q.gres["gpus-per-task"], g)
			}
		}
	}
	return nil
}

// licensesOfTasks asks for the licences of all tasks.
func (q *request) licensesOfTasks() error {
	if len(q.perTaskLicenses) == 0 {
		return nil
	}
	s := q.Spec
	if s.Licenses != "" {
		return refusal("--licenses and licences in --tres-per-task exclude each other; give one of them")
	}
	var terms []string
	for _, l := range q.perTaskLicenses {
		all := uint64(l.Count) * uint64(max(s.Tasks, 1))
		if all > 1<<30 {
			return refusal("--tres-per-task: %d licences %s for each of %d tasks are more than can be counted", l.Count, l.Name, s.Tasks)
		}
		terms = append(terms, fmt.Sprintf("%s:%d", l.Name, all))
	}
	s.Licenses = strings.Join(terms, ",")
	if _, _, err := events.ParseLicenses(s.Licenses); err != nil {
		return refusal("Invalid license specification: %v", err)
	}
	return nil
}
