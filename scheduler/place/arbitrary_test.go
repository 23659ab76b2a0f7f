package place

import (
	"strings"
	"testing"

	"stint/events"
)

// Where each task names its node, nodes have as many tasks as name them, in the order of the list; and a list that is too short is refused.
func TestTasksThatNameTheirNodes(t *testing.T) {
	for _, c := range []struct {
		list        string
		tasks       uint32
		out         string // tasks of n1, n2, n3
		first, text string
	}{
		{"n2,n1,n2", 0, "1 2 0", "n2", ""},
		{"n2,n1,n2,n3", 3, "1 2 0", "n2", ""},
		{"n[1-2],n1", 3, "2 1 0", "n1", ""},
		{"n3", 1, "0 0 1", "n3", ""},
		{"n1,n2", 3, "", "", "names 2 nodes for 3 tasks"},
	} {
		q, p := RequestOf(&events.JobSpec{Distribution: "arbitrary", NodeList: c.list, Tasks: c.tasks})
		if p != nil {
			if c.text == "" || !strings.Contains(p.Text, c.text) {
				t.Errorf("%s: %s", c.list, p.Text)
			}
			continue
		}
		if got := strings.Trim(strings.Join([]string{itoa(q.Arbitrary["n1"]), itoa(q.Arbitrary["n2"]), itoa(q.Arbitrary["n3"])}, " "), " "); got != c.out || q.NodeList[0] != c.first ||
			q.MinNodes != len(q.NodeList) || q.MaxNodes != q.MinNodes {
			t.Errorf("%s: %s, first %s of %d to %d nodes", c.list, got, q.NodeList[0], q.MinNodes, q.MaxNodes)
		}
	}
}

func itoa(n int) string { return string(rune('0' + n)) }
