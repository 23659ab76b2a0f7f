package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stint/cli/slurm"
)

// absent is the Order of a row that has no value: it stands last, whichever way the rows are sorted.
const absent = 1 << 62

// SortRules says what -S of a command may name, each as letters of -o. The zero value allows every letter.
type SortRules struct {
	Letters string // that can be sorted by; empty: all
	Warned  string // that are said to be wrong, and then left out
	Nulls   string // fields whose empty text stands behind all others; of the others the first host counts
	Idle    string // that are taken and change nothing
}

// sortKey is one letter of -S.
type sortKey[R any] struct {
	field   *Field[R]
	descend bool
	nulls   bool
}

// Sorter puts rows into an order.
type Sorter[R any] struct{ keys []sortKey[R] }

// Sort reads the value of -S: letters of -o, a minus before one for descending, joined by commas. notes are sentences about
// letters that are left out.
func (f Fields[R]) Sort(value string, rules SortRules) (s Sorter[R], notes []string, err error) {
	for _, word := range strings.Split(value, ",") {
		word = strings.TrimSpace(word)
		letter := strings.TrimLeft(word, "+-#")
		if word == "" || letter == "" && word == "#" {
			continue
		}
		if len(letter) == 1 && strings.Contains(rules.Warned, letter) {
			notes = append(notes, "Invalid sort specification: "+letter)
			continue
		}
		if len(letter) != 1 || f.letter(letter[0]) == nil || rules.Letters != "" && !strings.Contains(rules.Letters, letter) {
			return s, notes, fmt.Errorf("Invalid sort specification: %s; write letters of --format, joined by commas, a minus before one for descending", word)
		}
		if strings.Contains(rules.Idle, letter) {
			continue
		}
		if len(s.keys) < maxColumns {
			s.keys = append(s.keys, sortKey[R]{f.letter(letter[0]), strings.Contains(word[:len(word)-1], "-"), strings.Contains(rules.Nulls, letter)})
		}
	}
	return s, notes, nil
}

// sortable is what a row is sorted by, worked out once.
type sortable struct {
	index   int
	numbers []int64 // of a key by text: 0, or absent
	texts   []string
}

func (k *sortKey[R]) read(r R, to *sortable) {
	number, text := k.of(r)
	to.numbers, to.texts = append(to.numbers, number), append(to.texts, text)
}

// of is a row's number and text under a key.
func (k *sortKey[R]) of(r R) (number int64, text string) {
	if k.field.Order != nil {
		return k.field.Order(r), ""
	}
	text = k.field.Value(r)
	switch {
	case k.nulls && text == "":
		number = absent
	case k.nulls:
		text = firstHost(text)
	}
	return number, text
}

// firstHost is the first name of a host list, its number made so wide that text sorts as numbers do.
func firstHost(list string) string {
	prefix, rest, folded := strings.Cut(list, "[")
	if !folded {
		prefix, _, _ = strings.Cut(list, ",")
		rest = prefix[len(strings.TrimRight(prefix, "0123456789")):]
		prefix = strings.TrimSuffix(prefix, rest)
	}
	rest = rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	return fmt.Sprintf("%s%020s", prefix, rest)
}

// compare compares two rows by the keys from the i-th on, and then by where they stood. Two rows without a value are put the other
// way round: Slurm's comparison says of either that it comes later, and its merge then takes the right one first.
func (s Sorter[R]) compare(i int, a, b *sortable) int {
	for ; i < len(s.keys); i++ {
		k := &s.keys[i]
		d, swap := k.compare(a.numbers[i], b.numbers[i])
		if swap {
			return -s.compare(i+1, a, b)
		}
		if d == 0 && k.field.Order == nil {
			if d = strings.Compare(a.texts[i], b.texts[i]); k.descend {
				d = -d
			}
		}
		if d != 0 {
			return d
		}
	}
	return cmp.Compare(a.index, b.index)
}

// compare compares two rows by their numbers under a key. swap: neither has a value, and what else they differ in counts the other way
// round.
func (k *sortKey[R]) compare(x, y int64) (d int, swap bool) {
	if x == absent || y == absent {
		sign := 1
		if k.nulls && k.descend { // an empty text is a greatest value; a time that is not known is none at all
			sign = -1
		}
		return sign * cmp.Compare(x, y), x == y && sign == 1
	}
	if d = cmp.Compare(x, y); k.descend {
		d = -d
	}
	return d, false
}

// Rows sorts rows; those that are equal stay as they stood. What rows that are alike (see Likeness) have in common is looked at once.
func (s Sorter[R]) Rows(rows []R, alike ...Likeness[R]) {
	width := len(s.keys)
	if width == 0 || len(rows) < 2 {
		return
	}
	numbers := make([]int64, len(rows)*width)
	for n := range s.keys {
		s.keys[n].column(rows, numbers[n:], width, alike)
	}
	order := make([]int32, len(rows))
	for i := range order {
		order[i] = int32(i)
	}
	var compare func(i int, a, b int32) int
	compare = func(i int, a, b int32) int {
		for ; i < width; i++ {
			d, swap := s.keys[i].compare(numbers[int(a)*width+i], numbers[int(b)*width+i])
			if swap {
				return -compare(i+1, a, b)
			}
			if d != 0 {
				return d
			}
		}
		return cmp.Compare(a, b)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(0, a, b) })
	arrange(rows, order)
}

// column works out what rows are sorted by under a key, as numbers that stand width apart: of texts their places among these.
func (k *sortKey[R]) column(rows []R, to []int64, width int, alike []Likeness[R]) {
	var texts []string
	number := map[string]int64{}
	same := func(i int) bool {
		return i > 0 && len(alike) > 0 && alike[0].has(k.field) && alike[0].Same(&rows[i-1], &rows[i])
	}
	for i := range rows {
		if same(i) {
			to[i*width] = to[(i-1)*width]
			continue
		}
		n, text := k.of(rows[i])
		if k.field.Order == nil && n != absent {
			known := false
			if n, known = number[text]; !known {
				n = int64(len(texts))
				number[text] = n
				texts = append(texts, text)
			}
		}
		to[i*width] = n
	}
	if k.field.Order != nil || len(texts) < 2 {
		return
	}
	places := make([]int64, len(texts))
	slices.Sort(texts)
	for place, text := range texts {
		places[number[text]] = int64(place)
	}
	for i := range rows {
		if n := to[i*width]; n != absent {
			to[i*width] = places[n]
		}
	}
}

// arrange puts rows into an order: of each place, where its row stands. The order is used up.
func arrange[R any](rows []R, order []int32) {
	for i := range order {
		if order[i] < 0 || int(order[i]) == i {
			continue
		}
		first := rows[i]
		at := int32(i)
		for {
			from := order[at]
			order[at] = -1
			if from == int32(i) {
				rows[at] = first
				break
			}
			rows[at] = rows[from]
			at = from
		}
	}
}

// Likeness says which rows have what in common: those of one kind differ in nothing that the fields of these letters show.
type Likeness[R any] struct {
	Same    func(a, b *R) bool
	Letters string
}

func (l Likeness[R]) has(f *Field[R]) bool {
	return f != nil && f.Letter != 0 && strings.IndexByte(l.Letters, f.Letter) >= 0
}

// JobsAlike is that of jobs: those of one kind.
var JobsAlike = Likeness[Job]{
	Same: func(a, b *Job) bool {
		return a.Job == b.Job && a.own != nil && b.own != nil && a.Task == b.Task && a.In == b.In && a.with == nil && b.with == nil
	},
	Letters: "PjutTMlDRaCqrUmNSc",
}

// Compare is negative if a comes before b, 0 if they are equal in all keys.
func (s Sorter[R]) Compare(a, b R) int {
	var x, y sortable
	for n := range s.keys {
		s.keys[n].read(a, &x)
		s.keys[n].read(b, &y)
	}
	return s.compare(0, &x, &y)
}

// JobSort is what -S of squeue may name. By some of the letters that it takes, 22.05 does not sort.
func JobSort(r slurm.Release) SortRules {
	rules := SortRules{Letters: "BcCdDefgGhHiIjJlLmMnNOpPQStTuUvVz", Warned: "b", Nulls: "N"}
	if r <= slurm.Release2205 {
		rules.Idle = "cfghnO"
	}
	return rules
}

// AsLoaded puts jobs into the order that squeue sorts from: that of the controller's list, then by the time of start. one: a single
// job was asked for, with its array's tasks; these stand in a list of their own.
func AsLoaded(rows []Job, one bool) {
	AsListed(rows, one)
	latest := Sorter[Job]{keys: []sortKey[Job]{{field: SqueueFields.Get().letter('S'), descend: true}}}
	latest.Rows(rows, JobsAlike)
}

// AsListed puts jobs into the order of the controller's list. A job stands where it was submitted. When a task of an array
// starts, its record is the one that stood for the whole, with an id of its own, and what waits gets a new record at the end: so
// the first task that started stands where the array was submitted, each other where the one before it got its id, and what
// waits behind the last. one: a single array, of which what waits comes first and the latest task next.
func AsListed(rows []Job, one bool) {
	if !one && listed(rows) {
		return
	}
	place := make([]uint64, len(rows))
	if one {
		for i, r := range rows {
			if id := r.GetId(); id != r.GetArrayId() {
				place[i] = 1<<32 - uint64(id)
			}
		}
	} else {
		last := map[uint32]uint32{} // of an array, the id its last task was given
		for _, i := range byID(rows) {
			r := &rows[i]
			id := r.GetId()
			if a := r.GetArrayId(); a != 0 {
				before, started := last[a]
				if !started {
					before = a
				}
				if id != a {
					last[a] = id
				}
				id = before
			}
			place[i] = uint64(id)<<1 | min(uint64(r.GetArrayId()), 1)
		}
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(a, b))
	})
	sorted := make([]Job, len(rows))
	for i, from := range order {
		sorted[i] = rows[from]
	}
	copy(rows, sorted)
}

// listed says whether rows are in the order of the list as they are: by id, and no arrays among them.
func listed(rows []Job) bool {
	for i, r := range rows {
		if r.GetArrayId() != 0 || i > 0 && r.GetId() < rows[i-1].GetId() {
			return false
		}
	}
	return true
}

// byID is the rows in the order of their ids, what waits of an array, or the last of its tasks to start, behind the others.
func byID(rows []Job) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	key := func(i int) (bool, uint32) {
		return rows[i].GetArrayId() != 0 && rows[i].GetId() == rows[i].GetArrayId(), rows[i].GetId()
	}
	slices.SortFunc(order, func(a, b int) int {
		lastA, idA := key(a)
		lastB, idB := key(b)
		if lastA != lastB {
			if lastB {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(idA, idB), cmp.Compare(a, b))
	})
	return order
}
