package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// pair is one key=value as written.
type pair struct {
	key, value string
}

// line is one logical line of a file: continuations joined, comments gone.
type line struct {
	file  string
	n     int // of its first physical line, from 1
	pairs []pair
}

func (l line) where() string { return fmt.Sprintf("%s:%d", l.file, l.n) }

const (
	maxFile    = 16 << 20
	maxInclude = 16 // how deep files may include one another
	maxFiles   = 1000
)

// reader takes lines out of a file and the files it includes.
type reader struct {
	read    func(string) ([]byte, error)
	dir     string // of the main file: what Include is relative to
	cluster string // for %c in Include, once it is known
	lines   []line
	files   int
}

func (r *reader) file(name string, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: files include one another more than %d deep", name, maxInclude)
	}
	if r.files++; r.files > maxFiles {
		return fmt.Errorf("%s: more than %d files are included", name, maxFiles)
	}
	text, err := r.read(name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s has %d bytes, and at most %d are read", name, len(text), maxFile)
	}
	physical := strings.Split(string(text), "\n")
	for i := 0; i < len(physical); i++ {
		first := i + 1
		body, more := uncomment(physical[i])
		if more && i+1 < len(physical) {
			var whole strings.Builder
			whole.WriteString(body)
			for more && i+1 < len(physical) {
				i++
				body, more = uncomment(physical[i])
				whole.WriteByte(' ')
				whole.WriteString(body)
			}
			body = whole.String()
		}
		body = strings.TrimSpace(body)
		if body == "" {
			continue
		}
		l := line{file: name, n: first}
		if word, rest, _ := strings.Cut(strings.ReplaceAll(body, "\t", " "), " "); strings.EqualFold(word, "include") && !strings.HasPrefix(strings.TrimSpace(rest), "=") {
			target := strings.ReplaceAll(strings.Trim(strings.TrimSpace(rest), `"`), "%c", r.cluster)
			if target == "" {
				return fmt.Errorf("%s: Include names no file", l.where())
			}
			if !path.IsAbs(target) {
				target = path.Join(r.dir, target)
			}
			if err := r.file(target, depth+1); err != nil {
				return fmt.Errorf("%s: %w", l.where(), err)
			}
			continue
		}
		if l.pairs, err = pairs(body); err != nil {
			return fmt.Errorf("%s: %w", l.where(), err)
		}
		for _, p := range l.pairs {
			if strings.EqualFold(p.key, "ClusterName") {
				r.cluster = p.value
			}
		}
		r.lines = append(r.lines, l)
	}
	return nil
}

// uncomment cuts a comment off a physical line, and says whether the line goes on with the next. `\#` is a plain #.
func uncomment(s string) (body string, more bool) {
	s = strings.TrimRight(s, " \t\r")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '#':
			i++
			b.WriteByte('#')
		case s[i] == '#':
			return b.String(), false
		case s[i] == '\\' && i+1 == len(s):
			return b.String(), true
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), false
}

// pairs takes `Key=value Key2="a b"` apart. Blanks may stand around the equals sign; += and -= are read as =.
func pairs(s string) ([]pair, error) {
	var out []pair
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		eq := strings.IndexByte(s, '=')
		key := s
		if eq >= 0 {
			key = s[:eq]
		}
		key = strings.TrimRight(strings.TrimSpace(key), "+-")
		if eq < 0 || key == "" || strings.ContainsAny(key, " \t\"") {
			return nil, fmt.Errorf("%q is not KEY=VALUE", clip(s))
		}
		s = strings.TrimLeft(s[eq+1:], " \t")
		var value string
		if strings.HasPrefix(s, `"`) {
			end := strings.IndexByte(s[1:], '"')
			if end < 0 {
				return nil, fmt.Errorf("the quotation mark of %s is not closed", key)
			}
			value, s = s[1:1+end], s[2+end:]
		} else if i := strings.IndexAny(s, " \t"); i >= 0 {
			value, s = s[:i], s[i:]
		} else {
			value, s = s, ""
		}
		out = append(out, pair{key, value})
	}
	return out, nil
}

func clip(s string) string {
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// optional reads a file that need not exist.
func optional(read func(string) ([]byte, error), name string) (text []byte, there bool, err error) {
	text, err = read(name)
	if err == nil {
		return text, true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("reading %s: %w", name, err)
}
