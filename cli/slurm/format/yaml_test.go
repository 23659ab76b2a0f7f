package format

import "testing"

func TestYAML(t *testing.T) {
	value := object{
		{"name", "train"}, {"empty", ""}, {"number", "12"}, {"yes", "Yes"}, {"text", "a: \"b\" #c"}, {"lines", "a\nb"}, {"path", "/home/x_1"}, {"nodes", "n[1-2]"}, {"tilde", "~"},
		{"flag", true}, {"nothing", nil}, {"count", 7}, {"share", 0.5}, {"none", list{}}, {"no", object{}}, {"states", []string{"PENDING", "REQUEUED"}},
		{"limit", object{{"set", true}, {"number", 3}}},
		{"deep", list{object{{"index", 0}, {"cores", list{object{{"index", 1}, {"status", []string{"A"}}}, object{{"index", 2}}}}}, 5, list{1, 2}}},
	}
	want := `name: train
empty: ""
number: "12"
yes: "Yes"
text: "a: \"b\" #c"
lines: "a\nb"
path: "/home/x_1"
nodes: "n[1-2]"
tilde: "~"
flag: true
nothing: null
count: 7
share: 0.5
none: []
no: {}
states:
- PENDING
- REQUEUED
limit:
  set: true
  number: 3
deep:
- index: 0
  cores:
  - index: 1
    status:
    - A
  - index: 2
- 5
- - 1
  - 2`
	if got := YAML(value, 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
