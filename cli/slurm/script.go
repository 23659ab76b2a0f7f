package slurm

import (
	"bytes"
	"errors"
	"strings"
)

// MaxScript is the largest batch script accepted unless the site says otherwise (max_script_size), in bytes.
const MaxScript = 4 << 20

// Directive is one #SBATCH line: its words, as a shell would split them.
type Directive struct {
	Line   int // from 1
	Words  []string
	System string // PBS or BSUB for lines of these, empty for #SBATCH
}

// Directives checks a batch script and returns its #SBATCH lines. They are read up to the first line that is neither blank
// nor a comment, and must begin at the left margin; `##SBATCH` is a comment. #PBS and #BSUB lines are returned
// too. name is how the script is called in sentences.
func Directives(script []byte, name string, limit int) (list []Directive, err error) {
	switch {
	case len(script) == 0 || len(bytes.TrimSpace(script)) == 0:
		return nil, refusal("the batch script %s is empty", name)
	case len(script) > limit:
		return nil, refusal("the batch script %s has %d bytes, and at most %d are allowed; keep data in files beside it", name, len(script), limit)
	case bytes.HasPrefix(script, []byte("\x7fELF")):
		return nil, refusal("%s is a program, not a batch script; submit it with --wrap, or write a script that runs it", name)
	case bytes.IndexByte(script, 0) >= 0:
		return nil, refusal("%s holds binary data and is no batch script", name)
	case !bytes.HasPrefix(script, []byte("#!")):
		return nil, refusal("%s does not look like a batch script: its first line must be #! and the path of an interpreter, such as #!/bin/sh", name)
	case bytes.Contains(script, []byte("\r\n")):
		return nil, refusal("the batch script %s has DOS line ends (CR LF); convert it with: sed -i 's/\\r$//' %s", name, name)
	}
	for n, rest := 1, script; len(rest) > 0; n++ {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		text := string(line)
		switch {
		case strings.HasPrefix(text, "#SBATCH"):
			words, err := splitDirective(text[len("#SBATCH"):])
			if err != nil {
				return nil, refusal("line %d of %s: %v", n, name, err)
			}
			list = append(list, Directive{Line: n, Words: words})
		case strings.HasPrefix(text, "#PBS ") || strings.HasPrefix(text, "#BSUB "):
			system, rest, _ := strings.Cut(text[1:], " ")
			if words, err := splitDirective(rest); err == nil {
				list = append(list, Directive{Line: n, Words: words, System: system})
			}
		case strings.TrimSpace(text) == "" || strings.HasPrefix(strings.TrimSpace(text), "#"):
		default:
			return list, nil
		}
	}
	return list, nil
}

var errQuote = errors.New("a quotation mark is not closed")

// splitDirective takes the words of a directive apart. Blanks separate words, single and double quotes hold them together,
// a backslash takes the next character (blanks apart) for what it is, and an unquoted # begins a comment.
func splitDirective(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	started := false
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (quote != 0 || s[i+1] != ' ' && s[i+1] != '\t'):
			i++
			word.WriteByte(s[i])
			started = true
		case c == '\\':
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case c == '#':
			i = len(s)
		case c == ' ' || c == '\t' || c == '\r':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteByte(c)
			started = true
		}
	}
	if quote != 0 {
		return nil, errQuote
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

// Wrap is the script that --wrap makes of a command.
func Wrap(command string) []byte {
	return []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + command + "\n")
}
