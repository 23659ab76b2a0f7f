package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
)

// written reads again what Write makes of a configuration.
func written(t *testing.T, c *events.Config) *events.Config {
	t.Helper()
	text := Write(c)
	r, err := Load("/slurm.conf", fromMap(map[string]string{"/slurm.conf": text}))
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, text)
	}
	if err := r.Refusal(); err != nil {
		t.Fatalf("what was written is refused: %v\n%s", err, text)
	}
	return r.Config
}

// same compares two configurations, without what comes out of gres.conf and cgroup.conf, which are not written.
func same(t *testing.T, got, want *events.Config) {
	t.Helper()
	want = want.CloneVT()
	want.Cgroup = nil
	for _, n := range want.Nodes {
		for _, g := range n.Gres {
			g.Files, g.Cores = "", ""
		}
	}
	if !got.EqualVT(want) {
		was, is := strings.Split(show(&Result{Config: want}), "\n"), strings.Split(show(&Result{Config: got}), "\n")
		for i := range max(len(was), len(is)) {
			if a, b := at(was, i), at(is, i); a != b {
				t.Errorf("written and read again line %d is\n%s\nnot\n%s", i, b, a)
			}
		}
		t.Error("it is not the same configuration")
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

func TestWrittenConfigIsRead(t *testing.T) {
	for _, site := range []string{"site", "cluster"} {
		r, err := Load(filepath.Join("testdata", site, "slurm.conf"), os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		same(t, written(t, r.Config), r.Config)
	}
}

// Partitions and settings as scontrol leaves them are written too.
func TestChangedConfigIsRead(t *testing.T) {
	r, err := Load("/slurm.conf", fromMap(map[string]string{"/slurm.conf": "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nNodeName=n[1-4] CPUs=8 Feature=a,b Gres=gpu:a100:2 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=1-0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	var changes []slurm.Change
	for _, kv := range strings.Fields("Nodes=n[2-3] MaxTime=1:30 DefaultTime=15 PriorityTier=7 PriorityJobFactor=3 MaxNodes=2 MinNodes=1 AllowGroups=a,b AllowAccounts=c,d AllowQos=e State=DRAIN Hidden=YES RootOnly=YES OverSubscribe=EXCLUSIVE DefMemPerNode=100 MaxMemPerNode=200 MaxCPUsPerNode=4 DisableRootJobs=YES GraceTime=30 LLN=YES ReqResv=YES OverTimeLimit=5") {
		key, value, _ := strings.Cut(kv, "=")
		changes = append(changes, slurm.Change{Key: key, Value: value, Op: '='})
	}
	m, err := PartitionChange(events.PartitionAct_PARTITION_CREATE, "night", changes)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Config
	c.Partitions = append(c.Partitions, m.Values)
	c.Settings = append(c.Settings, &events.Setting{Key: "SlurmctldDebug", Value: "debug2"}, &events.Setting{Key: "DebugFlags", Value: "(null)"})
	same(t, written(t, c), c)
}
