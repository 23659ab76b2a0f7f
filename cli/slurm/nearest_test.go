package slurm

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"qos", "top", "nodes", "partition", "name"}
	for word, want := range map[string]string{
		"foo": "", "fo": "", "x": "", "qso": "qos", "nods": "nodes", "nams": "name", "nope": "", "partitoin": "partition", "partit": "", "": "",
	} {
		if got, ok := Nearest(word, names); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
