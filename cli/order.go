package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the options of a stint command before its arguments, so that `stint events 7 --follow` means what it says:
// the library stops reading options at the first argument. What follows -- stays where it is.
func flagsFirst(commands []*cli.Command, args []string) []string {
	if len(args) < 3 {
		return args
	}
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[1]) })
	if i < 0 || commands[i].SkipFlagParsing {
		return args
	}
	valued := map[string]bool{}
	for _, f := range commands[i].Flags {
		if _, alone := f.(*cli.BoolFlag); !alone {
			for _, name := range f.Names() {
				valued[name] = true
			}
		}
	}
	flags, words := []string{args[0], args[1]}, []string(nil)
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		word := rest[0]
		if word == "--" {
			return append(append(flags, "--"), append(words, rest[1:]...)...)
		}
		if len(word) < 2 || word[0] != '-' {
			words = append(words, word)
			continue
		}
		flags = append(flags, word)
		if name := strings.TrimLeft(word, "-"); valued[name] && len(rest) > 1 {
			rest = rest[1:]
			flags = append(flags, rest[0])
		}
	}
	return append(flags, words...)
}
