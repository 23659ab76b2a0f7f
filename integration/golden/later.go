package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// features are what rows may wait for.
var features = []string{"reservations", "limits", "shares", "placement", "steps", "reports", "rest"}

// laterText lists the rows whose recorded output cannot come out before something else is built: a line each, GROUP/NAME and the feature. NAME may be a
// regular expression. They are counted for themselves.
//
//go:embed testdata/later.txt
var laterText string

// laterLine is one line of that list.
type laterLine struct {
	number int // from 1
	group  string
	like   *regexp.Regexp // of a row's name with its number
	needs  string
}

type laterList []laterLine

func readLater(text string) (list laterList, err error) {
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		wrong := func(what string) error { return fmt.Errorf("later.txt: line %d: %q: %s", i+1, line, what) }
		if len(words) != 2 {
			return nil, wrong("want GROUP/NAME and a feature")
		}
		group, name, ok := strings.Cut(words[0], "/")
		if !ok {
			return nil, wrong("want GROUP/NAME")
		}
		if !slices.Contains(features, words[1]) {
			return nil, wrong("there are the features " + strings.Join(features, " "))
		}
		like, err := regexp.Compile("^(?:" + name + ")$")
		if err != nil {
			return nil, wrong(err.Error())
		}
		list = append(list, laterLine{i + 1, group, like, words[1]})
	}
	return list, nil
}

// of returns the line that names a row, nil if none does.
func (l laterList) of(r *row) *laterLine {
	for i := range l {
		if l[i].group == r.Group && l[i].like.MatchString(r.Name) {
			return &l[i]
		}
	}
	return nil
}
