package slurm

import (
	"strings"

	"stint/events"
	"stint/events/tres"
)

// ParseGres reads the value of --gres: `gpu`, `gpu:2`, `gpu:a100:2`, several joined by commas; `none` is an empty list.
// A leading `gres:` or `gres/` is tolerated, as other commands print it.
func ParseGres(value string, scope events.Scope) ([]*events.Gres, error) {
	if value == "" || strings.EqualFold(value, "none") {
		return nil, nil
	}
	var list []*events.Gres
	for _, term := range strings.Split(value, ",") {
		name := term
		for _, prefix := range []string{"gres:", "gres/"} {
			name = strings.TrimPrefix(name, prefix)
		}
		fields := strings.Split(name, ":")
		if len(fields) > 3 || !gresWord(fields[0]) {
			return nil, refusal("%s is not a generic resource: write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2", clip(term))
		}
		if sharing := strings.ToLower(fields[0]); sharing == "mps" || sharing == "shard" {
			return nil, refusal("%s: a GPU is not shared among jobs by Stint yet (%s); ask for a whole one, such as gpu:1", clip(term), sharing)
		}
		g, err := gresOf(fields[0], fields[1:], term, scope)
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return mergeGres(list, value)
}

// ParseGPUs reads the value of --gpus and its kin: `2`, `a100:2`, `a100`, several joined by commas.
func ParseGPUs(value string, scope events.Scope) ([]*events.Gres, error) {
	var list []*events.Gres
	for _, term := range strings.Split(value, ",") {
		fields := strings.Split(term, ":")
		if len(fields) == 3 && fields[0] == "gpu" || len(fields) == 2 && fields[0] == "gpu" {
			fields = fields[1:]
		}
		if len(fields) > 2 {
			return nil, refusal("%s is not a number of GPUs: write COUNT or TYPE:COUNT, such as a100:2", clip(term))
		}
		g, err := gresOf("gpu", fields, term, scope)
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return mergeGres(list, value)
}

// gresOf makes a request of the words after the name: nothing, a count, a type, or a type and a count.
func gresOf(name string, fields []string, term string, scope events.Scope) (*events.Gres, error) {
	g := &events.Gres{Name: name, Count: 1, Scope: scope}
	count := ""
	switch len(fields) {
	case 1:
		if fields[0] != "" && (fields[0][0] >= '0' && fields[0][0] <= '9' || fields[0][0] == '-') {
			count = fields[0]
		} else {
			g.Type = fields[0]
		}
	case 2:
		g.Type, count = fields[0], fields[1]
	}
	if len(fields) > 0 && count == "" && g.Type == "" || len(fields) == 2 && (count == "" || g.Type == "") || g.Type != "" && !gresWord(g.Type) {
		return nil, refusal("%s is not a generic resource: write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2", clip(term))
	}
	if count != "" {
		n, err := tres.ParseCount(count)
		if err != nil || n > 1<<40 {
			return nil, refusal("%s in %s is not a count", clip(count), clip(term))
		}
		g.Count = uint64(n)
	}
	return g, nil
}

func gresWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// mergeGres drops counts of zero, lets the last of equal names and types win, and refuses a name with and without type.
func mergeGres(list []*events.Gres, value string) ([]*events.Gres, error) {
	if len(list) > 64 {
		return nil, refusal("more than 64 generic resources in one list are not allowed")
	}
	var out []*events.Gres
next:
	for _, g := range list {
		for i, o := range out {
			if o.Name == g.Name && o.Type == g.Type {
				out[i] = g
				continue next
			}
			if o.Name == g.Name && (o.Type == "") != (g.Type == "") {
				return nil, refusal("%s asks for %s with and without a type; give each a type or none", clip(value), g.Name)
			}
		}
		out = append(out, g)
	}
	kept := out[:0]
	for _, g := range out {
		if g.Count > 0 {
			kept = append(kept, g)
		}
	}
	return kept, nil
}
