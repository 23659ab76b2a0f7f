package commands

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
)

// switches are words of a conversation that stand for options of the command line.
var switches = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{"all": "-a", "details": "-d", "hide": "--hide", "oneliner": "-o", "quiet": "-Q", "verbose": "-v"}
}}

// converse reads commands line by line, as scontrol without a command does; given are the options of the command line. It
// ends with 1 if any of them failed.
func converse(given []string, w *World) int {
	in := bufio.NewReader(w.Stdin)
	echo := !isTerminal(w.Stdin)
	code, last := 0, ""
	for {
		fmt.Fprint(w.Stdout, "scontrol: ")
		line, err := in.ReadString('\n')
		line = strings.TrimSpace(line)
		if err != nil && line == "" {
			fmt.Fprintln(w.Stdout)
			return code
		}
		if echo {
			fmt.Fprintln(w.Stdout, line)
		}
		if line == "!!" {
			line = last
		}
		last = line
		words, wrong := splitLine(line)
		switch {
		case wrong != nil:
			code = w.complain("scontrol", wrong)
			continue
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			continue
		case words[0] == "exit", words[0] == "quit", words[0] == "e", words[0] == "q":
			return code
		case switches.Get()[words[0]] != "" && len(words) == 1:
			given = append(given, switches.Get()[words[0]])
			continue
		}
		s, wrong := slurm.ReadScontrol(w.input(append(slices.Clone(given), words...)))
		switch {
		case wrong != nil:
			w.complain("scontrol", wrong)
			code = 1
		case s.Verb == "" && s.Print == "": // options alone last
			given = append(given, words...)
		default:
			w.Now = w.Wait(0)
			code = max(code, scontrol(append(slices.Clone(given), words...), w))
		}
	}
}

// isTerminal says whether somebody types.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
