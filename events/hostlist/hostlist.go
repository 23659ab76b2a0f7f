// Package hostlist reads and writes Slurm's host list expressions, such as `n[1-3,5],gpu[01-32]`.
//
// A list keeps the order and the repetitions it was written with. A name is taken apart into a prefix, a decimal
// number at its end and the width of that number; names fold into one bracket only if a single width prints all of
// them as they were, so `n[1-3,5,05-06]` never mixes zero-padded and plain numbers. Brackets may stand in several
// places of an expression (`rack[1-2]n[1-4]`, the last one runs fastest), but nothing may follow the last bracket of a
// name: `m[01-03]x` is refused, as Slurm refuses it.
//
// Expressions come from users, so every function that expands takes a limit and counts before it allocates.
package hostlist

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// MaxHosts is the limit that callers without a reason of their own pass to Expand: more hosts than any cluster has.
const MaxHosts = 1 << 17

// maxDigits bounds the numbers in names; longer runs of digits are plain text (and refused inside brackets).
const maxDigits = 18

// Expand returns the host names of an expression in the order written, repetitions kept. It fails on malformed
// expressions and on those with more than limit names, before allocating them. An empty expression is an empty list.
func Expand(expr string, limit int) ([]string, error) {
	items, total, err := parse(expr, limit, false)
	if err != nil {
		return nil, err
	}
	hosts := make([]string, 0, total)
	for _, it := range items {
		hosts = it.expand(hosts)
	}
	return hosts, nil
}

// Count returns how many names Expand would return, without making them.
func Count(expr string, limit int) (int, error) {
	_, total, err := parse(expr, limit, false)
	return total, err
}

// span is the numbers lo to hi printed with at least width digits.
type span struct {
	lo, hi uint64
	width  int
}

func (s span) len() uint64 { return s.hi - s.lo + 1 }

// part is literal text followed by an optional bracket.
type part struct {
	text  string
	spans []span
}

// item is one comma-separated element of an expression.
type item struct {
	parts []part
	total int
}

func (it item) expand(to []string) []string {
	var walk func(prefix string, parts []part)
	walk = func(prefix string, parts []part) {
		if len(parts) == 0 {
			to = append(to, prefix)
			return
		}
		prefix += parts[0].text
		if parts[0].spans == nil {
			walk(prefix, parts[1:])
			return
		}
		for _, s := range parts[0].spans {
			for n := s.lo; ; n++ {
				walk(prefix+pad(n, s.width), parts[1:])
				if n == s.hi {
					break
				}
			}
		}
	}
	walk("", it.parts)
	return to
}

func pad(n uint64, width int) string {
	s := strconv.FormatUint(n, 10)
	if len(s) < width {
		return strings.Repeat("0", width-len(s)) + s
	}
	return s
}

// parse reads an expression. bare: names may be numbers alone, as scontrol show has them; a node has a name.
func parse(expr string, limit int, bare bool) (items []item, total int, err error) {
	rest := expr
	for rest != "" {
		var word string
		word, rest, err = cut(rest)
		if err != nil {
			return nil, 0, fmt.Errorf("host list %s: %w", quote(expr), err)
		}
		if word == "" {
			continue
		}
		it, err := parseItem(word, limit-total, bare)
		if err != nil {
			return nil, 0, fmt.Errorf("host list %s: %w", quote(expr), err)
		}
		total += it.total
		items = append(items, it)
	}
	return items, total, nil
}

// cut splits off the text before the first separator outside brackets. Slurm separates by commas and blanks.
func cut(s string) (word, rest string, err error) {
	open := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '[':
			if open {
				return "", "", fmt.Errorf("a bracket opens inside a bracket")
			}
			open = true
		case c == ']':
			if !open {
				return "", "", fmt.Errorf("a bracket closes that was not opened")
			}
			open = false
		case !open && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			return s[:i], s[i+1:], nil
		}
	}
	if open {
		return "", "", fmt.Errorf("a bracket is not closed")
	}
	return s, "", nil
}

func parseItem(word string, room int, bare bool) (item, error) {
	it := item{total: 1}
	for word != "" {
		open := strings.IndexByte(word, '[')
		if open < 0 {
			if len(it.parts) > 0 {
				return it, fmt.Errorf("%s follows the last bracket; write the names out", quote(word))
			}
			it.parts = append(it.parts, part{text: word})
			break
		}
		end := strings.IndexByte(word, ']')
		if len(it.parts) == 0 && open == 0 && !bare {
			return it, fmt.Errorf("a name must have text before its first bracket")
		}
		spans, err := parseSpans(word[open+1 : end])
		if err != nil {
			return it, err
		}
		var n uint64
		for _, s := range spans {
			if n += s.len(); n > uint64(room) {
				break
			}
		}
		if n > uint64(max(room, 0)) || n*uint64(it.total) > uint64(room) {
			return it, fmt.Errorf("more names than the limit allows")
		}
		it.total *= int(n)
		it.parts = append(it.parts, part{text: word[:open], spans: spans})
		word = word[end+1:]
	}
	if it.total > room {
		return it, fmt.Errorf("more names than the limit allows")
	}
	return it, nil
}

func parseSpans(text string) ([]span, error) {
	var spans []span
	for _, field := range strings.Split(text, ",") {
		lo, hi, ranged := strings.Cut(field, "-")
		if !ranged {
			hi = lo
		}
		a, errA := number(lo)
		b, errB := number(hi)
		switch {
		case errA != nil || errB != nil:
			return nil, fmt.Errorf("%s in brackets is not a number or a range such as 1-4", quote(field))
		case b < a:
			return nil, fmt.Errorf("the range %s runs backwards", quote(field))
		}
		spans = append(spans, span{a, b, len(lo)})
	}
	return spans, nil
}

func number(s string) (uint64, error) {
	if s == "" || len(s) > maxDigits {
		return 0, strconv.ErrSyntax
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseUint(s, 10, 64)
}

// quote shows user text in an error, cut to a readable length.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return strconv.Quote(s)
}

// Name is a host name taken apart: what stands before a number, and that number, printed with at least width digits.
type Name struct {
	prefix   string
	n        uint64
	width    int
	numbered bool // otherwise prefix is the whole name
}

// nameOf takes a name apart at the decimal number it ends with, which has at least so many characters before it.
func nameOf(host string, least int) Name {
	i := len(host)
	for i > 0 && host[i-1] >= '0' && host[i-1] <= '9' && len(host)-i < maxDigits {
		i--
	}
	if i == len(host) || i < least {
		return Name{prefix: host}
	}
	n, _ := strconv.ParseUint(host[i:], 10, 64)
	return Name{host[:i], n, len(host) - i, true}
}

func (a Name) before(b Name) bool {
	switch {
	case a.prefix != b.prefix:
		return a.prefix < b.prefix
	case a.numbered != b.numbered:
		return !a.numbered
	case a.width != b.width:
		return a.width < b.width
	}
	return a.n < b.n
}

// Names are host names that remember where their numbers began as they were written: `n0[3-7]` stays that, and does not become `n[03-07]`.
type Names []Name

// Parse reads an expression as scontrol show hostlist does: names may be numbers alone. It fails as Expand does.
func Parse(expr string, limit int) (Names, error) {
	items, total, err := parse(expr, limit, true)
	if err != nil {
		return nil, err
	}
	names := make(Names, 0, total)
	for _, it := range items {
		last := &it.parts[len(it.parts)-1]
		if last.spans == nil {
			names = append(names, nameOf(last.text, 0))
			continue
		}
		text, spans := last.text, last.spans
		last.text, last.spans = "", nil
		for _, before := range it.expand(nil) {
			for _, s := range spans {
				for n := s.lo; ; n++ {
					names = append(names, Name{before + text, n, len(pad(n, s.width)), true})
					if n == s.hi {
						break
					}
				}
			}
		}
	}
	return names, nil
}

// Sort is Sort of the names.
func (l Names) Sort() { sort.SliceStable(l, func(i, j int) bool { return l[i].before(l[j]) }) }

// Compress is Compress of the names.
func (l Names) Compress() string {
	w := writer{}
	for _, n := range l {
		w.add(n)
	}
	return w.end()
}

// Hosts are the names, written out.
func (l Names) Hosts() []string {
	hosts := make([]string, len(l))
	for i, n := range l {
		hosts[i] = n.prefix
		if n.numbered {
			hosts[i] += pad(n.n, n.width)
		}
	}
	return hosts
}

// joinWidth returns the one width that prints n (seen with width wn) and m (with wm) as they were, if there is one.
func joinWidth(n uint64, wn int, m uint64, wm int) (int, bool) {
	if wn == wm {
		return wn, true
	}
	for _, w := range [2]int{wn, wm} {
		if len(pad(n, w)) == wn && len(pad(m, w)) == wm {
			return w, true
		}
	}
	return 0, false
}

// group is a run of names with one prefix, written as one bracket.
type group struct {
	prefix string
	spans  []span
	bare   bool // no number: prefix is the whole name
}

func (g group) appendTo(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteByte(',')
	}
	b.WriteString(g.prefix)
	if g.bare {
		return
	}
	if len(g.spans) == 1 && g.spans[0].lo == g.spans[0].hi {
		b.WriteString(pad(g.spans[0].lo, g.spans[0].width))
		return
	}
	b.WriteByte('[')
	for i, s := range g.spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pad(s.lo, s.width))
		if s.hi > s.lo {
			b.WriteByte('-')
			b.WriteString(pad(s.hi, s.width))
		}
	}
	b.WriteByte(']')
}

// Compress writes host names as an expression, order and repetitions kept: `n4 n2 n1 n2` is `n[4,2,1-2]`.
// Expand gives the same names back, as long as none of them holds a comma, blank or bracket.
func Compress(hosts []string) string {
	w := writer{}
	w.to.Grow(64)
	for _, h := range hosts {
		w.add(nameOf(h, 1))
	}
	return w.end()
}

// writer puts names into brackets, one after the other.
type writer struct {
	to strings.Builder
	g  group
}

func (w *writer) flush() {
	if w.g.prefix != "" || len(w.g.spans) > 0 {
		w.g.appendTo(&w.to)
	}
	w.g = group{}
}

func (w *writer) end() string {
	w.flush()
	return w.to.String()
}

func (w *writer) add(name Name) {
	if !name.numbered {
		w.flush()
		w.g = group{prefix: name.prefix, bare: true}
		return
	}
	n, width := name.n, name.width
	if w.g.bare || w.g.prefix != name.prefix || len(w.g.spans) == 0 {
		w.flush()
		w.g = group{prefix: name.prefix, spans: []span{{n, n, width}}}
		return
	}
	last := &w.g.spans[len(w.g.spans)-1]
	// The width of a whole range must print its first number too, not only the one before n.
	if wide, ok := joinWidth(last.lo, digits(last.lo, last.width), n, width); ok && n == last.hi+1 && joins(last, wide) {
		last.hi, last.width = n, wide
		return
	}
	w.g.spans = append(w.g.spans, span{n, n, width})
}

// digits is how many digits n has when printed with at least width.
func digits(n uint64, width int) int { return len(pad(n, width)) }

// joins says whether the numbers of s print the same with width w.
func joins(s *span, w int) bool {
	return digits(s.lo, w) == digits(s.lo, s.width) && digits(s.hi, w) == digits(s.hi, s.width)
}

// Sort orders names as Slurm sorts a host list: by prefix, then narrow numbers before wide ones, then by number.
func Sort(hosts []string) {
	sort.SliceStable(hosts, func(i, j int) bool { return nameOf(hosts[i], 1).before(nameOf(hosts[j], 1)) })
}

// Compare orders two names as Sort does.
func Compare(a, b string) int {
	x, y := nameOf(a, 1), nameOf(b, 1)
	switch {
	case x.before(y):
		return -1
	case y.before(x):
		return 1
	}
	return 0
}

// CompressSorted is Compress of the names in the order of Sort; the argument is left as it is.
func CompressSorted(hosts []string) string {
	s := append([]string(nil), hosts...)
	Sort(s)
	return Compress(s)
}

// Runs writes counts run-length coded, as SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE have them: `2(x3),1`.
func Runs(counts []int) string {
	var b strings.Builder
	for i := 0; i < len(counts); {
		j := i
		for j < len(counts) && counts[j] == counts[i] {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(counts[i]))
		if j-i > 1 {
			fmt.Fprintf(&b, "(x%d)", j-i)
		}
		i = j
	}
	return b.String()
}
