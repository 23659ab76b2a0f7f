package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"stint/events"
)

var dependencyKinds = []struct {
	word string
	kind events.DependencyKind
}{
	{"after", events.DependencyKind_AFTER}, {"afterany", events.DependencyKind_AFTER_ANY}, {"afterok", events.DependencyKind_AFTER_OK},
	{"afternotok", events.DependencyKind_AFTER_NOT_OK}, {"aftercorr", events.DependencyKind_AFTER_CORR},
	{"afterburstbuffer", events.DependencyKind_AFTER_BURST_BUFFER}, {"singleton", events.DependencyKind_SINGLETON},
}

// DependencyWord is the word for a kind of dependency.
func DependencyWord(kind events.DependencyKind) string {
	for _, k := range dependencyKinds {
		if k.kind == kind {
			return k.word
		}
	}
	return ""
}

// maxDependencies bounds how many jobs one job may wait for.
const maxDependencies = 4096

// ParseDependencies reads the value of --dependency: `afterok:1:2,afterany:3_4`, `after:5+10` (ten minutes after its
// start), `singleton`; joined by commas all must hold, joined by question marks any one (a single question mark makes
// it so for all, as in Slurm). A bare job id means afterany. Empty and `0` mean none. Repetitions are merged.
func ParseDependencies(value string) (list []*events.Dependency, any bool, err error) {
	if value == "" || value == "0" {
		return nil, false, nil
	}
	any = strings.Contains(value, "?")
	seen := map[string]bool{}
	add := func(d *events.Dependency) error {
		key := fmt.Sprint(d.Kind, d.Job, d.Task, d.HasTask, d.DelayMin)
		if !seen[key] {
			seen[key] = true
			list = append(list, d)
		}
		if len(list) > maxDependencies {
			return refusal("more than %d dependencies are not allowed", maxDependencies)
		}
		return nil
	}
	for _, term := range strings.FieldsFunc(strings.ReplaceAll(value, "?", ",\x00,"), func(r rune) bool { return r == '\x00' }) {
		for _, t := range strings.Split(strings.Trim(term, ","), ",") {
			if err := parseTerm(t, add); err != nil {
				return nil, false, err
			}
		}
	}
	// Trimming above forgives only what the question marks brought; lone separators are errors.
	if strings.HasPrefix(value, ",") || strings.HasPrefix(value, "?") || strings.HasSuffix(value, ",") || strings.HasSuffix(value, "?") || strings.Contains(value, "?,") || strings.Contains(value, ",?") || strings.Contains(value, "??") {
		return nil, false, refusal("the dependency %s has a separator with nothing beside it", clip(value))
	}
	return list, any, nil
}

func parseTerm(term string, add func(*events.Dependency) error) error {
	word, ids, hasIDs := strings.Cut(term, ":")
	kind := events.DependencyKind_DEPENDENCY_NONE
	var words []string
	for _, k := range dependencyKinds {
		words = append(words, k.word)
		if strings.EqualFold(word, k.word) {
			kind = k.kind
		}
	}
	switch {
	case kind == events.DependencyKind_SINGLETON && !hasIDs:
		return add(&events.Dependency{Kind: kind})
	case kind == events.DependencyKind_SINGLETON:
		return refusal("the dependency singleton takes no job id: %s", clip(term))
	case kind != events.DependencyKind_DEPENDENCY_NONE && !hasIDs:
		return refusal("the dependency %s lacks a job id: write %s:JOBID", clip(term), strings.ToLower(word))
	case kind == events.DependencyKind_DEPENDENCY_NONE && !hasIDs && strings.Trim(word, "0123456789_") == "" && word != "":
		kind, ids = events.DependencyKind_AFTER_ANY, word
	case kind == events.DependencyKind_DEPENDENCY_NONE:
		return refusal("%s is not a dependency: known are %s%s", clip(term), strings.Join(words, ", "), mean(strings.ToLower(word), words))
	}
	for _, id := range strings.Split(ids, ":") {
		d := &events.Dependency{Kind: kind}
		text, delay, delayed := strings.Cut(strings.TrimSpace(id), "+")
		job, task, hasTask, ok := ParseJobID(text)
		if hasTask && task != "*" {
			n, err := strconv.ParseUint(task, 10, 31)
			d.Task, d.HasTask, ok = uint32(n), true, ok && err == nil
		}
		if !ok {
			return refusal("%s in the dependency %s is not a job id", clip(id), clip(term))
		}
		d.Job = job
		if delayed {
			n, err := strconv.ParseUint(delay, 10, 25)
			if err != nil || n == 0 {
				return refusal("%s in the dependency %s is not a number of minutes", clip(delay), clip(term))
			}
			d.DelayMin = uint32(n)
		}
		if err := add(d); err != nil {
			return err
		}
	}
	return nil
}
