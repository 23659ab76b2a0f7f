package place

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrUnsupported is what a constraint fails with that is well formed and asks for what is not built.
var ErrUnsupported = errors.New("not supported")

// MaxConstraint is the longest constraint expression that is read, in bytes.
const MaxConstraint = 1024

// Constraint is a feature expression as `sbatch --constraint` takes it: names joined by `&` and `|`, evaluated from left
// to right, with parentheses, `[a|b]` for "one of these, the same on all nodes", and counts: `a*2` for "at least two nodes
// with a, whatever the others are", `[a*2&b*4]` for "two with a and four with b". The zero value holds on every node.
type Constraint struct {
	// Alternatives are node-wise expressions; all nodes of an allocation have to meet the same one. Several come from
	// brackets; empty: every node is good.
	Alternatives []*Expr
	// Counts are how many nodes have to have a feature. A node counts for one of them.
	Counts []FeatureCount
}

// FeatureCount is so many nodes with a feature.
type FeatureCount struct {
	Feature string
	Nodes   int
}

// Nodes is how many nodes the counts take together.
func (c Constraint) Nodes() int {
	n := 0
	for _, f := range c.Counts {
		n += f.Nodes
	}
	return n
}

// Expr is a node-wise feature expression in tree form.
type Expr struct {
	Feature     string // a leaf, or empty
	And         bool   // of Left and Right; else Or
	Left, Right *Expr
}

// ParseConstraint reads a constraint. Errors say what is wrong and where. Counts joined by `|` are ErrUnsupported.
func ParseConstraint(text string) (Constraint, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Constraint{}, nil
	}
	if len(text) > MaxConstraint {
		return Constraint{}, fmt.Errorf("the constraint is longer than %d bytes", MaxConstraint)
	}
	p := &constraintParser{text: text}
	alternatives, err := p.expression(0)
	if err != nil {
		return Constraint{}, err
	}
	if p.at < len(p.text) {
		return Constraint{}, p.wrong("unexpected %q", p.text[p.at])
	}
	c := Constraint{Alternatives: alternatives, Counts: p.counts}
	switch {
	case len(p.counts) == 0:
	case p.or:
		return Constraint{}, fmt.Errorf("constraint %q: a choice between counts of nodes is %w; submit the parts as jobs of their own", text, ErrUnsupported)
	case p.leaves == 1:
		c.Alternatives = nil // the other nodes may be any
	}
	return c, nil
}

// Features calls f for each name in the constraint, in the order written.
func (c Constraint) Features(f func(name string)) {
	var walk func(e *Expr)
	walk = func(e *Expr) {
		if e.Feature != "" {
			f(e.Feature)
			return
		}
		walk(e.Left)
		walk(e.Right)
	}
	for _, e := range c.Alternatives {
		walk(e)
	}
	if len(c.Alternatives) == 0 {
		for _, n := range c.Counts {
			f(n.Feature)
		}
	}
}

// Holds says whether a node with these features meets the expression.
func (e *Expr) Holds(features []string) bool {
	if e.Feature != "" {
		for _, f := range features {
			if f == e.Feature {
				return true
			}
		}
		return false
	}
	if e.And {
		return e.Left.Holds(features) && e.Right.Holds(features)
	}
	return e.Left.Holds(features) || e.Right.Holds(features)
}

type constraintParser struct {
	text   string
	at     int
	counts []FeatureCount
	leaves int  // names read
	or     bool // a bar outside brackets
}

const (
	maxConstraintDepth        = 16
	maxConstraintAlternatives = 32
)

func (p *constraintParser) wrong(format string, args ...any) error {
	return fmt.Errorf("constraint %q, character %d: %s", p.text, p.at+1, fmt.Sprintf(format, args...))
}

// expression reads terms joined by & and |, left to right. A term is a set of alternatives (one without brackets), so
// joining two sets joins each with each.
func (p *constraintParser) expression(depth int) ([]*Expr, error) {
	left, err := p.term(depth)
	if err != nil {
		return nil, err
	}
	for p.at < len(p.text) && (p.text[p.at] == '&' || p.text[p.at] == '|') {
		and := p.text[p.at] == '&'
		p.or = p.or || !and
		p.at++
		right, err := p.term(depth)
		if err != nil {
			return nil, err
		}
		if left, err = p.join(left, right, and); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// join combines every alternative on the left with every one on the right.
func (p *constraintParser) join(left, right []*Expr, and bool) ([]*Expr, error) {
	if len(left)*len(right) > maxConstraintAlternatives {
		return nil, p.wrong("more than %d alternatives in brackets", maxConstraintAlternatives)
	}
	joined := make([]*Expr, 0, len(left)*len(right))
	for _, l := range left {
		for _, r := range right {
			joined = append(joined, &Expr{And: and, Left: l, Right: r})
		}
	}
	return joined, nil
}

func (p *constraintParser) term(depth int) ([]*Expr, error) {
	if depth > maxConstraintDepth {
		return nil, p.wrong("nested more than %d deep", maxConstraintDepth)
	}
	if p.at >= len(p.text) {
		return nil, p.wrong("a feature name is missing at the end")
	}
	var out []*Expr
	switch c := p.text[p.at]; {
	case c == '(':
		p.at++
		inner, err := p.expression(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := p.close(')'); err != nil {
			return nil, err
		}
		out = inner
	case c == '[':
		p.at++
		counted := len(p.counts)
		for {
			inner, err := p.conjunction(depth + 1)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
			if len(out) > maxConstraintAlternatives {
				return nil, p.wrong("more than %d alternatives in brackets", maxConstraintAlternatives)
			}
			if p.at < len(p.text) && p.text[p.at] == '|' {
				p.at++
				continue
			}
			break
		}
		if p.counts = p.counts[:len(p.counts):len(p.counts)]; len(p.counts) > counted {
			// Each node has one of the features counted.
			if len(out) != 1 {
				return nil, fmt.Errorf("constraint %q, character %d: a choice between counts of nodes is %w", p.text, p.at+1, ErrUnsupported)
			}
			out = []*Expr{anyOf(p.counts[counted:])}
		}
		if err := p.close(']'); err != nil {
			return nil, err
		}
	case isFeatureByte(c):
		start := p.at
		for p.at < len(p.text) && isFeatureByte(p.text[p.at]) {
			p.at++
		}
		name := p.text[start:p.at]
		out = []*Expr{{Feature: name}}
		p.leaves++
		if p.at < len(p.text) && p.text[p.at] == '*' {
			if err := p.count(name); err != nil {
				return nil, err
			}
		}
	default:
		return nil, p.wrong("a feature name cannot begin with %q", c)
	}
	return out, nil
}

// count reads `*N` behind a name.
func (p *constraintParser) count(name string) error {
	start := p.at + 1
	for p.at++; p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9'; p.at++ {
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n < 1 || n > MaxCount {
		return p.wrong("a number of nodes is missing after %q", "*")
	}
	if len(p.counts) == maxConstraintAlternatives {
		return p.wrong("more than %d counts of nodes", maxConstraintAlternatives)
	}
	p.counts = append(p.counts, FeatureCount{name, n})
	return nil
}

// anyOf holds on nodes with one of the features.
func anyOf(counts []FeatureCount) *Expr {
	e := &Expr{Feature: counts[0].Feature}
	for _, f := range counts[1:] {
		e = &Expr{Left: e, Right: &Expr{Feature: f.Feature}}
	}
	return e
}

// conjunction reads terms joined by & alone: the parts between the bars of a bracket.
func (p *constraintParser) conjunction(depth int) ([]*Expr, error) {
	left, err := p.term(depth)
	if err != nil {
		return nil, err
	}
	for p.at < len(p.text) && p.text[p.at] == '&' {
		p.at++
		right, err := p.term(depth)
		if err != nil {
			return nil, err
		}
		if left, err = p.join(left, right, true); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (p *constraintParser) close(c byte) error {
	if p.at >= len(p.text) || p.text[p.at] != c {
		return p.wrong("%q is missing", c)
	}
	p.at++
	return nil
}

func isFeatureByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ':' || c == '+' || c == '=' || c == '/'
}
