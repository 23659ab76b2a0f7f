package place

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestConstraints(t *testing.T) {
	for _, c := range []struct {
		text, features string
		holds          bool // under some alternative
	}{
		{"", "", true},
		{"a", "a b", true},
		{"a", "b", false},
		{"a&b", "a b", true},
		{"a&b", "a", false},
		{"a|b", "b", true},
		{"a|b&c", "a", false}, // from left to right: (a|b)&c
		{"a|b&c", "a c", true},
		{"a|(b&c)", "a", true},
		{"(a|b)&(c|d)", "b d", true},
		{"[a|b]", "b", true},
		{"[a|b]&c", "b", false},
		{"[a|b]&c", "b c", true},
		{"[a&b|c]", "c", true},
		{"gpu:80g-x_1.2", "gpu:80g-x_1.2", true},
	} {
		parsed, err := ParseConstraint(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		holds := len(parsed.Alternatives) == 0
		for _, e := range parsed.Alternatives {
			holds = holds || e.Holds(strings.Fields(c.features))
		}
		if holds != c.holds {
			t.Errorf("%q on a node with %q: %v", c.text, c.features, holds)
		}
	}
	// Brackets mean one feature for all nodes: as many alternatives as there are.
	if c, _ := ParseConstraint("[a|b|c]&(d|e)"); len(c.Alternatives) != 3 {
		t.Errorf("%d alternatives, want 3", len(c.Alternatives))
	}
	for _, text := range []string{"&", "a&", "a||b", "(a", "a)", "[a", "[a|]", "a b", "a,b", "a&!b", "[]", strings.Repeat("(", 100) + "a", strings.Repeat("a", MaxConstraint+1),
		strings.Repeat("[a|b]&", 10) + "c"} {
		if _, err := ParseConstraint(text); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
	if _, err := ParseConstraint("a*2|b*1"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a choice of counts: %v", err)
	}
	for _, text := range []string{"a*", "a*0", "a*x", "*2", "(a|b)*2"} {
		if _, err := ParseConstraint(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	for text, want := range map[string]string{
		"a*2": "[{a 2}] 0", "a&b*3": "[{b 3}] 1", "[a*2&b*4]": "[{a 2} {b 4}] 1", "c&[a*2&b*4]": "[{a 2} {b 4}] 1",
	} {
		if c, err := ParseConstraint(text); err != nil || fmt.Sprint(c.Counts)+" "+fmt.Sprint(len(c.Alternatives)) != want {
			t.Errorf("%q: %v, %d alternatives, %v; want %s", text, c.Counts, len(c.Alternatives), err, want)
		}
	}
}

func FuzzConstraint(f *testing.F) {
	for _, s := range []string{"a&b|c", "[a|b]&(c|d)", "a*2", "((a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConstraint(text)
		if err != nil {
			return
		}
		n := 0
		c.Features(func(name string) {
			n++
			if name == "" || !strings.Contains(text, name) {
				t.Fatalf("%q names %q", text, name)
			}
		})
		if len(c.Alternatives) > maxConstraintAlternatives || n > maxConstraintAlternatives*MaxConstraint {
			t.Fatalf("%q has %d alternatives of %d names", text, len(c.Alternatives), n)
		}
		for _, e := range c.Alternatives {
			e.Holds([]string{"a"})
		}
	})
}
