package idset

import (
	"math/rand"
	"reflect"
	"slices"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"0-3,7", "0-3,7"}, {"7,3,2,1,0", "0-3,7"}, {"1-9:2", "1,3,5,7,9"}, {"[1-3]", "1-3"}, {"1,1,2", "1-2"},
		{"0-20:5", "0,5,10,15,20"}, {"63-65", "63-65"}, {"0-127", "0-127"}, {"64,128", "64,128"},
	} {
		s, err := Parse(c.in, HighestTask)
		if err != nil || s.String() != c.want {
			t.Errorf("Parse(%q) = %s, %v; want %s", c.in, s, err, c.want)
		}
	}
	for _, bad := range []string{"a", "3-1", "1-", "-1", "1--3", "1-3:0", "1:2", "1,,2", "4000001", "1-99999999999999999999", "1.5", " 1", "[1", "["} {
		if s, err := Parse(bad, HighestTask); err == nil {
			t.Errorf("Parse(%q) = %s; want an error", bad, s)
		}
	}
}

func TestArray(t *testing.T) {
	for _, c := range []struct {
		in       string
		throttle int
		out      string
	}{
		{"0-19%5", 5, "0-19%5"}, {"1-3%0", 0, "1-3"}, {"1-3%", 0, "1-3"}, {"[1-3]", 0, "1-3"}, {"[0-5%2]", 2, "0-5%2"},
		{"1,3,5-9:2", 0, "1,3,5,7,9"}, {"3,1,2", 0, "1-3"}, {"5", 0, "5"},
		// Steps, as the real commands print them.
		{"0-20:5", 0, "0,5,10,15,20"}, {"0-15:4%2", 2, "0,4,8,12%2"}, {"0-10:2", 0, "0,2,4,6,8,10"}, {"1-11:2", 0, "1,3,5,7,9,11"},
		{"0-12:2", 0, "0-12:2"}, {"0-25:5", 0, "0-25:5"}, {"0-12:3", 0, "0,3,6,9,12"}, {"0-20:4", 0, "0-20:4"},
		{"1-1000:2", 0, "1-999:2"}, {"0-100:7%3", 3, "0-98:7%3"}, {"1-200:3,7", 0, "1-199:3"}, {"0-60:20", 0, "0,20,40,60"},
		{"1-13:2,15-16", 0, "1,3,5,7,9,11,13,15-16"}, {"0-11:11", 0, "0,11"},
	} {
		s, n, err := ParseArray(c.in)
		if got := FormatArray(s, n, 64); err != nil || n != c.throttle || got != c.out {
			t.Errorf("ParseArray(%q) = %s throttle %d, %v; printed %s, want %s", c.in, s, n, err, got, c.out)
		}
	}
	for _, bad := range []string{"", "%2", "1%a", "1%-1", "abc", "1%2%3"} {
		if s, n, err := ParseArray(bad); err == nil {
			t.Errorf("ParseArray(%q) = %s, %d; want an error", bad, s, n)
		}
	}
	list := Of(1, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101)
	for limit, want := range map[int]string{
		10: "1,3,7,...", 24: "1,3,7,11,13,17,19,23...", 64: "1,3,7,11,13,17,19,23,29,31,37,41,43,47,53,59,61,67,71,73,79,...",
		74: "1,3,7,11,13,17,19,23,29,31,37,41,43,47,53,59,61,67,71,73,79,83,89,97,1...", 75: list.String(), 0: list.String(), 1: "...",
	} {
		if got := FormatArray(list, 0, limit); got != want {
			t.Errorf("cut to %d: %q, want %q", limit, got, want)
		}
	}
}

// Every operation agrees with the same operation on a map.
func TestAgainstMap(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	random := func() (Set, map[int]bool) {
		var s Set
		m := map[int]bool{}
		for n := r.Intn(40); n > 0; n-- {
			switch r.Intn(4) {
			case 0:
				lo := r.Intn(300)
				hi, step := lo+r.Intn(200), 1+r.Intn(4)
				s.AddRange(lo, hi, step)
				for id := lo; id <= hi; id += step {
					m[id] = true
				}
			case 1:
				id := r.Intn(600)
				s.Remove(id)
				delete(m, id)
			default:
				id := r.Intn(600)
				s.Add(id)
				m[id] = true
			}
		}
		return s, m
	}
	keys := func(m map[int]bool) []int {
		ids := []int{}
		for id := range m {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return ids
	}
	for i := 0; i < 2000; i++ {
		a, ma := random()
		b, mb := random()
		union, both, minus := map[int]bool{}, map[int]bool{}, map[int]bool{}
		for id := range ma {
			union[id] = true
			if mb[id] {
				both[id] = true
			} else {
				minus[id] = true
			}
		}
		for id := range mb {
			union[id] = true
		}
		for _, c := range []struct {
			name string
			got  Set
			want map[int]bool
		}{{"a", a, ma}, {"union", a.Union(b), union}, {"intersect", a.Intersect(b), both}, {"minus", a.Minus(b), minus}} {
			want := keys(c.want)
			if got := c.got.Slice(); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s = %v, want %v", seed, c.name, got, want)
			}
			if c.got.Len() != len(want) || c.got.Empty() != (len(want) == 0) {
				t.Fatalf("seed %d: %s: wrong length", seed, c.name)
			}
			if len(want) > 0 && (c.got.Min() != want[0] || c.got.Max() != want[len(want)-1]) {
				t.Fatalf("seed %d: %s: min %d max %d of %v", seed, c.name, c.got.Min(), c.got.Max(), want)
			}
			back, err := Decode(c.got.Bytes(), 1000)
			if err != nil || !back.Equal(c.got) {
				t.Fatalf("seed %d: %v decoded as %v, %v", seed, c.got, back, err)
			}
			text, err := Parse(c.got.String(), 1000)
			if err != nil || !text.Equal(c.got) {
				t.Fatalf("seed %d: %v parsed as %v, %v", seed, c.got, text, err)
			}
			if n := r.Intn(20); !reflect.DeepEqual(c.got.First(n).Slice(), want[:min(n, len(want))]) {
				t.Fatalf("seed %d: First(%d) of %v = %v", seed, n, c.got, c.got.First(n))
			}
		}
		if a.Intersects(b) != (len(both) > 0) || a.Contains(b) != (len(both) == len(mb)) || a.Equal(b) != reflect.DeepEqual(ma, mb) {
			t.Fatalf("seed %d: predicates of %v and %v", seed, a, b)
		}
	}
}

func TestCodecSizes(t *testing.T) {
	for _, c := range []struct {
		name string
		set  Set
		most int
	}{
		{"empty", Set{}, 0}, {"one", Of(5), 3}, {"4M in a row", Range(0, 4000000, 1), 8}, {"every second of 4M", Range(0, 4000000, 2), 500002},
		{"128 CPUs", Range(0, 127, 1), 4},
	} {
		b := c.set.Bytes()
		if len(b) > c.most {
			t.Errorf("%s: %d bytes, want at most %d", c.name, len(b), c.most)
		}
		if back, err := Decode(b, HighestTask); err != nil || !back.Equal(c.set) {
			t.Errorf("%s: decoded wrongly: %v", c.name, err)
		}
	}
	if _, err := Decode(Range(0, 100, 1).Bytes(), 99); err == nil {
		t.Error("an id above the limit was decoded")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []Set{Of(1), Range(0, 500, 3), Range(7, 4000, 1)} {
		f.Add(s.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b, 100000)
		if err != nil {
			return
		}
		if s.Max() > 100000 {
			t.Fatalf("%x: id %d", b, s.Max())
		}
		if got := s.Bytes(); string(got) != string(b) {
			t.Fatalf("%x is also %x: one set, two byte forms", b, got)
		}
	})
}

func FuzzParseArray(f *testing.F) {
	for _, s := range []string{"0-19%5", "1,3,5-9:2", "[1-3]", "0-4000000", "1-", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, n, err := ParseArray(text)
		if err != nil {
			return
		}
		again, m, err := ParseArray(FormatArray(s, n, 0))
		if err != nil || m != n || !again.Equal(s) {
			t.Fatalf("%q: %s %d came back as %s %d, %v", text, s, n, again, m, err)
		}
	})
}
