package layout

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"stint/events"
	"stint/executor/tasks"
)

// nodes of eight CPUs each, as the real Slurm had them that wrote down testdata/bind.txt: two sockets of two cores with two threads, and two
// of four cores.
func eight(threads int) (out []CPU) {
	for i := range 8 {
		out = append(out, CPU{Core: i / threads, Socket: i / 4, Number: uint32(i)})
	}
	return out
}

// Each line is a node (its threads of a core), the CPUs that a step has there as a mask, what it wants, and what the real Slurm 22.05 bound its
// tasks to: SLURM_CPU_BIND of a task, or the sentence of the refusal.
func TestBindAsSlurmDoes(t *testing.T) {
	f, err := os.Open("testdata/bind.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for in := bufio.NewScanner(f); in.Scan(); {
		line := in.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		left, right, _ := strings.Cut(line, " => ")
		words := strings.Fields(left)
		want, count := &tasks.Want{BindVerbose: true}, 0
		for _, w := range words[2:] {
			name, value, _ := strings.Cut(w, "=")
			number := 0
			for _, c := range value {
				number = number*10 + int(c-'0')
			}
			switch name {
			case "n":
				count = number
			case "c":
				want.CpusPerTask = uint32(number)
			case "one":
				want.OneThread = true
			case "m":
				want.Within = value
			case "sockets", "cores", "threads", "ldoms":
				want.BindUnit = name
			default:
				want.Bind = name
				if value != "" {
					want.BindList = strings.Split(value, ",")
				}
			}
		}
		node := eight(int(words[0][0] - '0'))
		got := ""
		b, no := Bind(node, maskOf(words[1], true), count, want, BindSite{})
		if no != nil {
			got = no.Text
		} else {
			got = strings.TrimPrefix(b.Environ()[0], "SLURM_CPU_BIND=verbose,")
		}
		if got != right {
			t.Errorf("%s: %s, want %s", left, got, right)
		}
		n++
	}
	if n < 50 {
		t.Errorf("only %d cases", n)
	}
}

// What is told of a task when it starts is a line of the real one's, with the task's number in the step and on the node.
func TestBindLine(t *testing.T) {
	for _, c := range []struct {
		want *tasks.Want
		line string
	}{
		{&tasks.Want{}, "cpu-bind=MASK - n1, task  5  1 [%d]: mask 0xf0 set"},
		{&tasks.Want{Bind: "none"}, "cpu-bind=NONE - n1, task  5  1 [%d]: mask 0x0"},
		{&tasks.Want{Bind: "rank"}, "cpu-bind=RANK - n1, task  5  1 [%d]: mask 0x2 set"},
		{&tasks.Want{Bind: "map_cpu", BindList: []string{"3"}, BindUnit: "cores"}, "cpu-bind-cores=MAP  - n1, task  5  1 [%d]: mask 0x8 set"},
		{&tasks.Want{Bind: "map_ldom", BindList: []string{"0"}}, "cpu-bind=LDMAP  - n1, task  5  1 [%d]: mask 0xff set"},
	} {
		b, no := Bind(eight(2), events.Words{0xff}, 2, c.want, BindSite{})
		if no != nil {
			t.Fatal(no)
		}
		if got := b.Line("n1", 5, 1); got != c.line {
			t.Errorf("%q, want %q", got, c.line)
		}
	}
}

// TaskPluginParam says what tasks are bound to where nobody asks for anything, and where the numbers do not fit.
func TestBindAsTheSiteHasIt(t *testing.T) {
	for _, c := range []struct {
		site BindSite
		n    int
		out  string
	}{
		{BindSite{}, 3, "quiet,mask_cpu:0xFF"},
		{BindSite{Auto: "cores"}, 3, "quiet,mask_cpu:0x03,0x30,0x0C"},
		{BindSite{Auto: "cores"}, 2, "quiet,mask_cpu:0x0F,0xF0"},
		{BindSite{Unit: "threads"}, 2, "quiet,mask_cpu:0x01,0x10"},
		{BindSite{Unit: "none"}, 2, "quiet,none"},
		{BindSite{Verbose: true}, 2, "verbose,mask_cpu:0x0F,0xF0"},
	} {
		b, no := Bind(eight(2), events.Words{0xff}, c.n, &tasks.Want{}, c.site)
		if no != nil {
			t.Fatal(no)
		}
		if got := strings.TrimPrefix(b.Environ()[0], "SLURM_CPU_BIND="); got != c.out {
			t.Errorf("%+v: %s, want %s", c.site, got, c.out)
		}
	}
}
