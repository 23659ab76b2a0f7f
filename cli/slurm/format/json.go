package format

import (
	"encoding/json"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/tres"
)

// pair is one member of an object, object its members in their order.
type (
	pair struct {
		key   string
		value any
	}
	object []pair
	list   []any
)

// JSON writes a value with two blanks for each level, as the commands do. depth is the level it stands on.
func JSON(value any, depth int) string { return string(AppendJSON(nil, value, depth)) }

const blanks = "                                                                "

// newLine begins a line on a level.
func newLine(to []byte, depth int) []byte {
	to = append(to, '\n')
	for n := 2 * depth; n > 0; n -= len(blanks) {
		to = append(to, blanks[:min(n, len(blanks))]...)
	}
	return to
}

// AppendJSON is JSON behind what is there.
func AppendJSON(to []byte, value any, depth int) []byte {
	switch v := value.(type) {
	case object:
		if len(v) == 0 {
			return append(to, "{}"...)
		}
		to = append(to, '{')
		for i := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(append(append(newLine(to, depth+1), '"'), v[i].key...), "\": "...)
			to = AppendJSON(to, v[i].value, depth+1)
		}
		return append(newLine(to, depth), '}')
	case list:
		if len(v) == 0 {
			return append(to, "[]"...)
		}
		to = append(to, '[')
		for i := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = AppendJSON(newLine(to, depth+1), v[i], depth+1)
		}
		return append(newLine(to, depth), ']')
	case []string:
		l := make(list, len(v))
		for i, s := range v {
			l[i] = s
		}
		return AppendJSON(to, l, depth)
	}
	return appendScalar(to, value)
}

// appendScalar writes what has no parts. The types that records are made of are written here, for there are a hundred of them in each.
func appendScalar(to []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, v)
	case int:
		return strconv.AppendInt(to, int64(v), 10)
	case int32:
		return strconv.AppendInt(to, int64(v), 10)
	case int64:
		return strconv.AppendInt(to, v, 10)
	case uint32:
		return strconv.AppendUint(to, uint64(v), 10)
	case uint64:
		return strconv.AppendUint(to, v, 10)
	case string:
		for i := 0; i < len(v); i++ {
			if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
				return appendMarshalled(to, v)
			}
		}
		return append(append(append(to, '"'), v...), '"')
	}
	return appendMarshalled(to, value)
}

func appendMarshalled(to []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("null")
	}
	return append(to, text...)
}

// number is a number that might be unset or infinite, as the parser has them.
func number[N int | int64 | uint32 | uint64 | float64](n N) object {
	return object{{"set", true}, {"infinite", false}, {"number", n}}
}

func unset() object { return object{{"set", false}, {"infinite", false}, {"number", 0}} }

// given is a number that is unset when it is 0.
func given[N int | int64 | uint32 | uint64](n N) object {
	if n == 0 {
		return unset()
	}
	return number(n)
}

// limit is a count or a time that may be unlimited.
func limitNumber(n uint32) object {
	if n == events.Unlimited {
		return object{{"set", false}, {"infinite", true}, {"number", 0}}
	}
	return number(n)
}

// minutes is a time limit.
func minutes(seconds uint32) object {
	if seconds == events.Unlimited {
		return limitNumber(seconds)
	}
	return number((seconds + 59) / 60)
}

// moment is a time in seconds since 1970, 0 if it has not come.
func moment(us int64) object { return number(us / 1e6) }

// exitStatus is how a job or a step ended.
func exitStatus(pending bool, code, signal uint32) object {
	status, id, name := "SUCCESS", unset(), ""
	switch {
	case pending:
		status = "PENDING"
	case signal != 0:
		status, id, name = "SIGNALED", number(signal), slurm.SignalName(int32(signal))
	case code != 0:
		status = "ERROR"
	}
	return object{{"status", []string{status}}, {"return_code", number(code)}, {"signal", object{{"id", id}, {"name", name}}}}
}

// tresNumbers are the fixed numbers of trackable resources; gres are numbered from 1001 in their order.
var tresNumbers = once.Value[map[string]int]{Make: func() map[string]int {
	return map[string]int{"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8}

}}

func tresList(l tres.List) list {
	out := list{}
	gres := 1000
	for _, t := range l {
		kind, name, _ := strings.Cut(t.Name, "/")
		id := tresNumbers.Get()[t.Name]
		if id == 0 {
			gres++
			id = gres
		}
		out = append(out, object{{"type", kind}, {"name", name}, {"id", id}, {"count", t.Count}})
	}
	return out
}

// JSONMeta is what every answer says of itself: who asked what of which cluster, and the version emulated.
type JSONMeta struct {
	Command []string // as it was called
	User    string
	Group   string
	Source  string // terminal
	Cluster string
	Release slurm.Release
}

// JSONTail is what stands behind the records in every answer: members, each with its key, beginning with a comma.
func JSONTail(m JSONMeta, nowUs int64, queue bool) string {
	return "," + strings.TrimPrefix(JSON(tail(m, nowUs, queue), 0), "{") + "\n"
}

// YAMLTail is the same as YAML.
func YAMLTail(m JSONMeta, nowUs int64, queue bool) string {
	return YAML(tail(m, nowUs, queue), 0) + "\n...\n"
}

func tail(m JSONMeta, nowUs int64, queue bool) object {
	version := strings.TrimPrefix(m.Release.Version(), "slurm ")
	parts := strings.SplitN(version, ".", 3)
	var o object
	if queue {
		o = append(o, pair{"last_backfill", moment(nowUs)}, pair{"last_update", moment(nowUs)})
	}
	o = append(o,
		pair{"meta", object{
			{"plugin", object{{"type", ""}, {"name", ""}, {"data_parser", "data_parser/" + slurm.JSONVersion}, {"accounting_storage", "accounting_storage/slurmdbd"}}},
			{"client", object{{"source", m.Source}, {"user", m.User}, {"group", m.Group}}},
			{"command", m.Command},
			{"slurm", object{{"version", object{{"major", parts[0]}, {"micro", parts[2]}, {"minor", parts[1]}}}, {"release", version}, {"cluster", m.Cluster}}},
		}},
		pair{"errors", list{}}, pair{"warnings", list{}})
	return o
}
