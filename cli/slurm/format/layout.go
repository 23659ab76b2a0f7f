// Package format prints rows as Slurm's commands print them: columns by letter (-o) or by name (-O), the tables of sacct, and
// the records of scontrol show. What a field shows of a row is a table; the engines know nothing about rows.
package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
)

// Field is one thing that can be printed of a row.
type Field[R any] struct {
	Letter byte   // for -o; 0: none
	Name   string // for -O, in any case
	Head   string
	Value  func(R) string
	Order  func(R) int64 // what -S sorts by, if it is a number; nil: by the value as text
}

// Fields is all that can be printed of a row.
type Fields[R any] []Field[R]

// without is the fields but one, for a release that does not have it.
func (f Fields[R]) without(name string) Fields[R] {
	return slices.DeleteFunc(slices.Clone(f), func(field Field[R]) bool { return field.Name == name })
}

// noAll says whether ALL is no name of -O: squeue does not have it, sinfo does.
func (f Fields[R]) noAll() bool { return f.named("JobArrayId") != nil }

// whole says whether values of a field are not cut where they are set to the right: squeue's of how long something takes, and of nodes.
func (f Fields[R]) whole(field *Field[R]) bool {
	return (f.noAll() || f.named("StepId") != nil) && field.Letter != 0 && strings.IndexByte("lLMnxYNR", field.Letter) >= 0
}

func (f Fields[R]) letter(c byte) *Field[R] {
	for i := range f {
		if f[i].Letter == c {
			return &f[i]
		}
	}
	return nil
}

func (f Fields[R]) named(name string) *Field[R] {
	for i := range f {
		if f[i].Name != "" && strings.EqualFold(f[i].Name, name) {
			return &f[i]
		}
	}
	return nil
}

// Names are the names of all fields, for --helpFormat and for sentences.
func (f Fields[R]) Names() []string {
	var names []string
	for i := range f {
		if f[i].Name != "" {
			names = append(names, f[i].Name)
		}
	}
	return names
}

// column is a field with its place in a line, or literal text.
type column[R any] struct {
	field  *Field[R]
	width  int // 0: as wide as needed
	fit    int // -1: no; otherwise as wide as the widest value, at least so much
	right  bool
	suffix string
	every  bool // it is one of those that `all` stands for
	whole  bool // values that are wider than the column are not cut
}

// Layout is the columns of a line.
type Layout[R any] struct {
	prefix  string
	columns []column[R]
}

// maxWidth bounds the width of a column.
const maxWidth = 4096

// maxColumns bounds the columns of a layout.
const maxColumns = 1000

// ByLetter reads a format of -o: text with `%[[.]WIDTH]LETTER` in it; a dot sets to the right, and a width both fills and cuts.
// `#` for a width is that of the longest value. `%all` is every letter, separated by |. notes are sentences about what is not
// known; it is printed as it stands, as Slurm does.
func (f Fields[R]) ByLetter(format string) (l Layout[R], notes []string) {
	if strings.EqualFold(format, "%all") {
		return Layout[R]{columns: f.every()}, nil
	}
	head, rest, more := strings.Cut(format, "%")
	l.prefix = head
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "%")
		if part == "" { // two percent signs in a row are one, as real squeue has it
			continue
		}
		if len(l.columns) == maxColumns {
			return l, append(notes, fmt.Sprintf("the format has more than %d fields; the others are left out", maxColumns))
		}
		c := column[R]{fit: -1}
		i := 0
		if part[i] == '.' {
			c.right = true
			i++
		}
		if i < len(part) && part[i] == '#' && !f.noAll() {
			c.fit = 0
			i++
		}
		j := i
		for j < len(part) && part[j] >= '0' && part[j] <= '9' {
			j++
		}
		c.width = width(part[i:j])
		if j < len(part) {
			c.field = f.letter(part[j])
		}
		if c.field == nil {
			notes = append(notes, fmt.Sprintf("Invalid job format specification: %s", part))
			l.columns = append(l.columns, column[R]{suffix: "%" + part, fit: -1})
			continue
		}
		if c.fit == 0 {
			c.fit, c.width = c.width, 0
		}
		c.suffix, c.whole = part[j+1:], f.whole(c.field)
		l.columns = append(l.columns, c)
	}
	return l, notes
}

// every is a column for each letter, separated by |.
func (f Fields[R]) every() []column[R] {
	var columns []column[R]
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		if field := f.letter(c); field != nil {
			columns = append(columns, column[R]{field: field, fit: -1, suffix: "|", every: true})
		}
	}
	if n := len(columns); n > 0 {
		columns[n-1].suffix = ""
	}
	return columns
}

// SpaceAll puts a blank behind those columns of `all` that have a capital letter: so sinfo prints them.
func (l *Layout[R]) SpaceAll() {
	for i := range l.columns {
		if c := &l.columns[i]; c.every && c.field.Letter < 'a' {
			c.suffix = " " + c.suffix
		}
	}
}

// defaultWidth is that of the columns of -O.
const defaultWidth = 20

// ByName reads a format of -O: `NAME[:[.][WIDTH][SUFFIX]],…`. Without a colon a column is 20 wide; a colon without a width
// makes it as wide as needed. ALL, where there is such a name, is every field that has a letter. Names that are not known are left out, with a note.
func (f Fields[R]) ByName(format string) (l Layout[R], notes []string) {
	for _, part := range strings.Split(format, ",") {
		name, spec, sized := strings.Cut(part, ":")
		name = strings.TrimSpace(name)
		if name == "" && !sized {
			continue
		}
		field := f.named(name)
		if field == nil && strings.EqualFold(name, "all") && !f.noAll() && len(l.columns)+len(f) <= maxColumns {
			l.columns = append(l.columns, f.every()...)
			continue
		}
		if field == nil {
			note := fmt.Sprintf("Invalid job format specification: %s", name)
			if near, ok := slurm.Nearest(strings.ToLower(name), lower(f.Names())); ok {
				note += "; did you mean " + near + "?"
			}
			if len(notes) < 100 {
				notes = append(notes, note)
			}
			if suffix := strings.TrimLeft(strings.TrimPrefix(spec, "."), "0123456789"); suffix != "" && len(l.columns) < maxColumns {
				l.columns = append(l.columns, column[R]{suffix: suffix, fit: -1}) // which is printed nevertheless
			}
			continue
		}
		if len(l.columns) == maxColumns {
			return l, append(notes, fmt.Sprintf("the format has more than %d fields; the others are left out", maxColumns))
		}
		c := column[R]{field: field, width: defaultWidth, fit: -1, whole: f.whole(field)}
		if sized {
			spec, c.right = strings.CutPrefix(spec, ".")
			j := 0
			for j < len(spec) && spec[j] >= '0' && spec[j] <= '9' {
				j++
			}
			c.width, c.suffix = width(spec[:j]), spec[j:]
		}
		l.columns = append(l.columns, c)
	}
	return l, notes
}

func lower(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ToLower(s)
	}
	return out
}

func width(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil && digits != "" || n > maxWidth {
		return maxWidth
	}
	return n
}

// Fit makes the columns whose width is that of the longest value so wide.
func (l Layout[R]) Fit(rows []R) {
	for i := range l.columns {
		c := &l.columns[i]
		if c.fit < 0 {
			continue
		}
		c.width = max(c.fit, len(c.field.Head))
		for _, r := range rows {
			c.width = max(c.width, len(c.field.Value(r)))
		}
	}
}

// Head is the line of headings.
func (l Layout[R]) Head() string {
	return l.line(func(f *Field[R]) string { return f.Head }, true)
}

// Row is the line of one row.
func (l Layout[R]) Row(r R) string {
	return l.line(func(f *Field[R]) string { return f.Value(r) }, false)
}

func (l Layout[R]) line(value func(*Field[R]) string, head bool) string {
	b := append(make([]byte, 0, 128), l.prefix...)
	for i := range l.columns {
		c := &l.columns[i]
		if c.field != nil {
			b = c.add(b, value(c.field), head)
		}
		b = append(b, c.suffix...)
	}
	return string(b)
}

// add puts a value, or a heading, into its column.
func (c *column[R]) add(b []byte, text string, head bool) []byte {
	switch {
	case c.whole && c.right && len(text) >= c.width && !(!head && strings.IndexByte("lL", c.field.Letter) >= 0 && text == "UNLIMITED") && (!head && (c.field.Letter != 'R' || !strings.HasPrefix(text, "(")) || head && strings.IndexByte("NRY", c.field.Letter) >= 0):
		return append(b, text...)
	case head && c.right && (c.field.Head == "HOSTNAMES" || c.field.Head == "NODE_ADDR") && len(text) > c.width: // sinfo does not cut these
		return append(b, text...)
	case !c.right && text == "(null)" && 0 < c.width && c.width < len(text):
		return place(b, "", c.width, false) // as C's printf does with less than six bytes
	case c.field.Letter == 'P' && strings.HasSuffix(text, "*") && 0 < c.width && c.width < len(text): // the mark of the default partition stays
		return append(append(b, text[:c.width-1]...), '*')
	}
	return place(b, text, c.width, c.right)
}

// Lines is the lines of rows, one after another. What a row has in common with the one before it is not worked out again.
type Lines[R any] struct {
	layout Layout[R]
	alike  Likeness[R]
	before *R
	line   []byte // of the row before
	ends   []int  // where its columns end
	spare  []byte
}

// Lines begins to make lines; alike, if any, says what rows have in common.
func (l Layout[R]) Lines(alike ...Likeness[R]) *Lines[R] {
	s := &Lines[R]{layout: l, ends: make([]int, len(l.columns))}
	if len(alike) > 0 {
		s.alike = alike[0]
	}
	return s
}

// Next is the line of a row, with its end. It is good until the next one, and the row has to stay as it is until then.
func (s *Lines[R]) Next(r *R) []byte {
	same := s.before != nil && s.alike.Same != nil && s.alike.Same(s.before, r)
	b := append(s.spare[:0], s.layout.prefix...)
	begin := len(s.layout.prefix)
	for i := range s.layout.columns {
		c := &s.layout.columns[i]
		end := s.ends[i]
		switch {
		case same && (c.field == nil || s.alike.has(c.field)):
			b = append(b, s.line[begin:end]...)
		case c.field != nil:
			b = append(c.add(b, c.field.Value(*r), false), c.suffix...)
		default:
			b = append(b, c.suffix...)
		}
		begin, s.ends[i] = end, len(b)
	}
	b = append(b, '\n')
	s.line, s.spare, s.before = b, s.line, r
	return b
}

// Has says whether any column shows the field of this letter.
func (l Layout[R]) Has(letters string) bool {
	for i := range l.columns {
		if f := l.columns[i].field; f != nil && f.Letter != 0 && strings.IndexByte(letters, f.Letter) >= 0 {
			return true
		}
	}
	return false
}

// HasName says whether any column shows one of these fields, by their names in lower case.
func (l Layout[R]) HasName(names ...string) bool {
	for i := range l.columns {
		f := l.columns[i].field
		for _, n := range names {
			if f != nil && strings.EqualFold(f.Name, n) {
				return true
			}
		}
	}
	return false
}

// place adds s, filled or cut to the width; 0 leaves it. It counts bytes, as Slurm does.
func place(b []byte, s string, width int, right bool) []byte {
	n := len(s)
	if width == 0 || n == width {
		return append(b, s...)
	}
	if n > width {
		return append(b, s[:width]...)
	}
	if !right {
		b = append(b, s...)
	}
	for ; n < width; n++ {
		b = append(b, ' ')
	}
	if right {
		b = append(b, s...)
	}
	return b
}
