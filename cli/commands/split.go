package commands

import (
	"errors"
	"strings"
)

var errUnclosed = errors.New("a quotation mark is not closed")

// splitLine takes the words of a line apart: blanks separate, quotes of either kind hold together.
func splitLine(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			in, quote = true, c
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, errUnclosed
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
