package slurm

import (
	"strconv"
	"strings"
)

// ParseConstraint checks the value of --constraint and returns it with & for every comma. A constraint is names of features
// joined by & and |, with parentheses, brackets and counts (`[intel*2&amd*2]`).
func ParseConstraint(value string) (string, error) {
	value = strings.ReplaceAll(value, ",", "&")
	var closers []byte
	name := true // a name, a parenthesis or the end may come next
	bad := func(why string) error {
		return refusal("Invalid feature specification: %s %s; write names joined by & or |, such as intel&avx2", clip(value), why)
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case '(', '[':
			if !name {
				return "", bad("has a bracket after a name")
			}
			if c == '(' {
				closers = append(closers, ')')
			} else {
				closers = append(closers, ']')
			}
		case ')', ']':
			if name || len(closers) == 0 || closers[len(closers)-1] != c {
				return "", bad("has brackets that do not match")
			}
			closers = closers[:len(closers)-1]
		case '&', '|':
			if name {
				return "", bad("has an operator without a name before it")
			}
			name = true
		case '*':
			j := i + 1
			for j < len(value) && value[j] >= '0' && value[j] <= '9' {
				j++
			}
			if n, err := strconv.ParseUint(value[i+1:j], 10, 31); name || err != nil || n == 0 {
				return "", bad("has a * that is not followed by a count")
			}
			i = j - 1
		default:
			if c <= ' ' || c == 0x7f || strings.IndexByte(`"'\;?`, c) >= 0 {
				return "", bad("holds a character that no feature has")
			}
			name = false
		}
	}
	if len(closers) > 0 {
		return "", bad("has brackets that do not match")
	}
	if name && value != "" {
		return "", bad("ends in an operator")
	}
	return value, nil
}

// checkDistribution checks the value of --distribution: `{*|block|cyclic|arbitrary|plane=N}` for the nodes, after colons
// one for sockets and one for cores, and `,Pack` or `,NoPack`.
func checkDistribution(value string) error {
	bad := usage("%s is not a distribution: write block, cyclic, plane=N or arbitrary, and after a colon block, cyclic or fcyclic", clip(value))
	head, pack, packed := strings.Cut(strings.ToLower(value), ",")
	if packed && pack != "pack" && pack != "nopack" {
		return bad
	}
	fields := strings.Split(head, ":")
	if len(fields) > 3 {
		return bad
	}
	for i, f := range fields {
		size, plane := strings.CutPrefix(f, "plane=")
		switch {
		case f == "*" || f == "block" || f == "cyclic":
		case i > 0 && f == "fcyclic":
		case i == 0 && f == "arbitrary":
		case plane && len(fields) == 1 && !packed:
			if n, err := strconv.ParseUint(size, 10, 31); err != nil || n == 0 {
				return bad
			}
		default:
			return bad
		}
	}
	return nil
}
