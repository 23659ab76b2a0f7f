package slurm

import (
	"strings"
	"testing"
)

// Files for --multi-prog, with the arguments of each task as Slurm 22.05 was seen to make them.
func TestMultiProg(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0 echo zero %t of args\n1-2 echo task %t offset %o\n* sh -c 'echo rest $0 %t' %t\n", "echo|zero|0|of|args; echo|task|1|offset|0; echo|task|2|offset|1; sh|-c|echo rest $0 %t|3"},
		{"* ./args.sh a'b c'd \"e f\" g\\ h 'i j' '%t' %t x\\\"y 'k\"l m\"' %%t %o", "./args.sh|ab cd|\"e|f\"|g h|i j|%t|0|x\"y|k\"l m\"|t|0; ./args.sh|ab cd|\"e|f\"|g h|i j|%t|1|x\"y|k\"l m\"|t|1; ./args.sh|ab cd|\"e|f\"|g h|i j|%t|2|x\"y|k\"l m\"|t|2; ./args.sh|ab cd|\"e|f\"|g h|i j|%t|3|x\"y|k\"l m\"|t|3"},
		{"# comment\n\n0-2\ta   b\tc\n3 ./args.sh one\\\ntwo \\\nthree \\  four %d\n", "a|b|c; a|b|c; a|b|c; ./args.sh|onetwo|three| |four|"},
		{"0,2 x it\\'s \\\\ \\n \"a\" '' end\n1,3 y\n", "x|it's|\\|n|\"a\"||end; y; x|it's|\\|n|\"a\"||end; y"},
		{"0 echo a\n", "no record for task id 1"},
		{"* echo 'a\n", "line 1"},
		{"* echo a\\", "line 1"},
		{"0-x echo", "no list of tasks"},
		{"* \n", "line 1"},
	} {
		list, err := MultiProg(c.text, 4)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, not %q", c.text, err, c.want)
			}
			continue
		}
		var got []string
		for _, argv := range list {
			got = append(got, strings.Join(argv, "|"))
		}
		if have := strings.Join(got, "; "); have != c.want {
			t.Errorf("%q:\n%s\nnot\n%s", c.text, have, c.want)
		}
	}
}
