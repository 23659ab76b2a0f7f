package bus

import (
	"fmt"
	"strings"
)

// Exact returns nil if subject is one exact subject (tokens that are not empty, no wildcard, no blank) that
// lies within the pattern; else ErrSubject with the subject named.
func Exact(subject, pattern string) error {
	for _, token := range strings.Split(subject, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
			return fmt.Errorf("subject %q: %w: it must be exact", subject, ErrSubject)
		}
	}
	if !Matches(pattern, subject) {
		return fmt.Errorf("subject %q: %w: it is none of %s", subject, ErrSubject, pattern)
	}
	return nil
}

// Matches reports whether the exact subject matches the pattern: * stands for one token, > for one or more at
// the end.
func Matches(pattern, subject string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		s, srest, smore := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return !pmore
		case p != "*" && p != s:
			return false
		case !pmore || !smore:
			return pmore == smore
		}
		pattern, subject = prest, srest
	}
}
