package cli

import (
	"strings"
	"testing"
)

func TestFlagsFirst(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"stint events 7 --follow", "stint events --follow 7"},
		{"stint events 7 --dir /tmp/x --json", "stint events --dir /tmp/x --json 7"},
		{"stint events --dir=/tmp/x 7", "stint events --dir=/tmp/x 7"},
		{"stint events --json -- -7", "stint events --json -- -7"},
		{"stint submit -", "stint submit -"},
		{"stint nothing 7 --follow", "stint nothing 7 --follow"},
		{"stint", "stint"},
		{"stint events 7 --dir", "stint events --dir 7"},
	} {
		if got := strings.Join(flagsFirst(app().Commands, strings.Fields(c.in)), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}
