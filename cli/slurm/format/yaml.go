package format

import (
	"encoding/json"
	"strconv"
	"strings"
)

// YAML writes a value as YAML in block style, two blanks for each level. depth is the level it stands on; the first line is for
// the caller to indent.
func YAML(value any, depth int) string {
	var b strings.Builder
	writeYAML(&b, value, depth)
	return b.String()
}

func writeYAML(b *strings.Builder, value any, depth int) {
	next := func() {
		b.WriteByte('\n')
		for range depth {
			b.WriteString("  ")
		}
	}
	switch v := value.(type) {
	case object:
		if len(v) == 0 {
			b.WriteString("{}")
		}
		for i, p := range v {
			if i > 0 {
				next()
			}
			b.WriteString(p.key + ":")
			writeMember(b, p.value, depth)
		}
	case list:
		if len(v) == 0 {
			b.WriteString("[]")
		}
		for i, x := range v {
			if i > 0 {
				next()
			}
			b.WriteString("- ")
			writeYAML(b, x, depth+1)
		}
	case []string:
		l := make(list, len(v))
		for i, s := range v {
			l[i] = s
		}
		writeYAML(b, l, depth)
	case string:
		b.WriteString(yamlText(v))
	default:
		b.Write(appendScalar(nil, v))
	}
}

// writeMember writes what stands behind a key: on its line if it is one word, below it otherwise.
func writeMember(b *strings.Builder, value any, depth int) {
	below := func(n, depth int) bool {
		if n == 0 {
			return false
		}
		b.WriteByte('\n')
		for range depth {
			b.WriteString("  ")
		}
		return true
	}
	switch v := value.(type) {
	case object:
		if below(len(v), depth+1) {
			writeYAML(b, v, depth+1)
			return
		}
	case list:
		if below(len(v), depth) { // a sequence stands under its key without indentation
			writeYAML(b, v, depth)
			return
		}
	case []string:
		if below(len(v), depth) {
			writeYAML(b, v, depth)
			return
		}
	}
	b.WriteByte(' ')
	writeYAML(b, value, depth)
}

// yamlText is a text that no reader takes for anything else.
func yamlText(s string) string {
	plain := s != "" && !strings.ContainsAny(s[:1], "0123456789+-./~=<!&*?|>%@`'\"[]{},:# ")
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c == '_' || c == '/' || c == '.' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	text, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(text)
}
