package place

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnsupported is what a constraint fails with that is well formed and asks for what is not built.
var ErrUnsupported = errors.New("not supported")

// MaxConstraint is the longest constraint expression that is read, in bytes.
const MaxConstraint = 1024

// Constraint is a feature expression as `sbatch --constraint` takes it: names joined by `&` and `|`, evaluated from left
// to right, with parentheses, and `[a|b]` for "one of these, the same on all nodes". The zero value holds on every node.
type Constraint struct {
	// Alternatives are node-wise expressions; all nodes of an allocation have to meet the same one. Several come from
	// brackets; empty: every node is good.
	Alternatives []*Expr
}

// Expr is a node-wise feature expression in tree form.
type Expr struct {
	Feature     string // a leaf, or empty
	And         bool   // of Left and Right; else Or
	Left, Right *Expr
}

// ParseConstraint reads a constraint. Errors say what is wrong and where. Counts per feature (`a*2`) are
// ErrUnsupported.
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
	return Constraint{Alternatives: alternatives}, nil
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
	text string
	at   int
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
		if err := p.close(']'); err != nil {
			return nil, err
		}
	case isFeatureByte(c):
		start := p.at
		for p.at < len(p.text) && isFeatureByte(p.text[p.at]) {
			p.at++
		}
		out = []*Expr{{Feature: p.text[start:p.at]}}
	default:
		return nil, p.wrong("a feature name cannot begin with %q", c)
	}
	if p.at < len(p.text) && p.text[p.at] == '*' {
		return nil, fmt.Errorf("constraint %q, character %d: a count of nodes per feature is %w; submit the parts as jobs of their own", p.text, p.at+1, ErrUnsupported)
	}
	return out, nil
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
