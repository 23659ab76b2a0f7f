package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/cli/site"
	"stint/events"
	"stint/projections"
)

func (d *diagnosis) lines() (out []string) {
	for _, f := range d.Findings {
		out = append(out, strings.TrimRight(f.Level+" | "+f.Check+" | "+f.Text+" | "+f.Do, " |"))
	}
	return out
}

// Of nodes that do not serve it is said why, of all with the same trouble at once, and what to do.
func TestDoctorNodes(t *testing.T) {
	node := func(name string, change func(*projections.Node)) *projections.Node {
		n := &projections.Node{Name: name, Up: true, Version: "1"}
		change(n)
		return n
	}
	d := &diagnosis{OK: true}
	judgeNodes(d, &projections.AnswerNodes{
		Nodes: []*projections.Node{
			node("n1", func(n *projections.Node) {}),
			node("n2", func(n *projections.Node) { n.Drain, n.Reason = true, "bad fan" }),
			node("n3", func(n *projections.Node) { n.Drain, n.Reason = true, "bad fan" }),
			node("n4", func(n *projections.Node) { n.Drain, n.Unfit = true, "no space left on device" }),
			node("n5", func(n *projections.Node) { n.Up = false }),
			node("n6", func(n *projections.Node) { n.Version = "0" }),
			node("n7", func(n *projections.Node) {
				n.Inventory = &events.Inventory{Unenforced: []string{"limits on devices: not root"}}
			}),
		},
		Now: []*projections.NodeNow{{Name: "n1", AheadUs: -40_000}, {Name: "n2", AheadUs: 3_500_000}, {Name: "n6", AheadUs: -60_000_000}},
	}, "1")
	want := []string{
		"ok | nodes | 3 nodes take jobs",
		"warning | nodes | n[2-3] are drained: bad fan | when the cause is mended: scontrol update nodename=n[2-3] state=resume",
		"warning | nodes | n4 could not start a job and gets no more: no space left on device | when the cause is mended: scontrol update nodename=n4 state=resume",
		"warning | nodes | n5 has not registered | start its executor: `stint up`, or stint-executor@n5",
		"warning | versions | n6 runs version 0, this program is 1 | install the same version there, and restart its executor: jobs go on",
		"note | limits | n7 does not hold jobs to all they got: limits on devices: not root",
		"warning | clocks | n2 has a clock that is 3.5s before the controller's | keep the clocks of all hosts right: chrony or systemd-timesyncd",
		"warning | clocks | n6 has a clock that is 1m0s behind the controller's | keep the clocks of all hosts right: chrony or systemd-timesyncd",
	}
	if got := d.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A disk is judged by what is left of it, and of the files it can have.
func TestDoctorDisk(t *testing.T) {
	for _, test := range []struct {
		mib, files, free uint64
		want             string
	}{
		{10, 0, 0, "broken | disk | /d has 10 MiB left for the log; a cluster needs 64 MiB to start | make room there, or move the cluster with --dir"},
		{100, 0, 0, "broken | disk | /d has 100 MiB left for the log | make room there, or move the cluster with --dir"},
		{1000, 0, 0, "warning | disk | /d has 1000 MiB left for the log | make room there, or move the cluster with --dir"},
		{9000, 1_000_000, 500_000, "ok | disk | /d has 9000 MiB left for the log"},
		{9000, 1_000_000, 50, "ok | disk | /d has 9000 MiB left for the log\nwarning | disk | /d can take only 50 more files | remove files there"},
	} {
		d := &diagnosis{OK: true}
		judgeDisk(d, "/d", "the log", test.mib, test.files, test.free)
		if got := strings.Join(d.lines(), "\n"); got != test.want || d.OK == strings.HasPrefix(test.want, "broken") {
			t.Errorf("%+v: %q, ok %v", test, got, d.OK)
		}
	}
}

// What others may read or write of a cluster's is broken, with the command that mends it.
func TestDoctorModes(t *testing.T) {
	dir := site.Dir(filepath.Join(t.TempDir(), "d"))
	if err := dir.Make(0o755); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir.Keys(), "admin")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		d := &diagnosis{OK: true}
		checkKeys(d, dir)
		return strings.Join(d.lines(), "\n")
	}
	if got := look(); got != "ok | keys | 1, their owner's alone" {
		t.Errorf("as it is made: %s", got)
	}
	for path, mode := range map[string]os.FileMode{key: 0o644, dir.Ledger(): 0o755, string(dir): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"broken | keys | others may read admin | chmod 600 " + key, "broken | folders | others may look into " + dir.Ledger(), "chmod go-w " + string(dir)} {
		if got := look(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
