package site

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneMachine(t *testing.T) {
	for _, test := range []struct {
		name    string
		o       Options
		names   string // of the nodes; empty: the machine's
		cpus    uint32
		mem     uint64
		gres    string
		virtual bool
	}{
		{"as it is", Options{}, "", 0, 0, "", false},
		{"played", Options{Nodes: "n[1-4]", CPUs: 8, Memory: 16000, Gres: "gpu:a100:4"}, "n[1-4]", 8, 16000, "gpu:a100:4", true},
		{"other CPUs", Options{CPUs: 3}, "", 3, 0, "", true},
		{"several kinds", Options{Gres: "gpu:2,tape:lto:1"}, "", 0, 0, "gpu::2,tape:lto:1", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := OneMachine(test.o, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Nodes) != 1 || len(c.Partitions) != 1 || c.Partitions[0].Name != "debug" || !c.Partitions[0].Default || c.Partitions[0].MaxTimeS != Unlimited {
				t.Errorf("nodes %v, partitions %v", c.Nodes, c.Partitions)
			}
			n := c.Nodes[0]
			var gres []string
			for _, g := range n.Gres {
				gres = append(gres, g.Name+":"+g.Type+":"+string(rune('0'+g.Count)))
			}
			if test.names != "" && n.Names != test.names || test.cpus != 0 && n.Cpus != test.cpus || test.mem != 0 && n.MemoryMib != test.mem ||
				strings.Join(gres, ",") != test.gres || n.Virtual != test.virtual {
				t.Errorf("the node is %v", n)
			}
			if n.Cpus == 0 || n.MemoryMib == 0 || uint64(n.Cpus)*c.DefMemPerCpuMib > n.MemoryMib {
				t.Errorf("%d CPUs with %d MiB each of %d", n.Cpus, c.DefMemPerCpuMib, n.MemoryMib)
			}
			if len(c.AdminUids) != 2 || c.AdminUids[0] != 0 || c.AdminUids[1] != 7 {
				t.Errorf("administrators: %v", c.AdminUids)
			}
		})
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		o    Options
		says string
	}{
		{Options{Nodes: "n[1-"}, "--nodes"},
		{Options{Gres: "gpu:a:b:c"}, "gpu:a100:4"},
		{Options{Gres: "gpu:a100:0"}, "1 to 1024"},
		{Options{Gres: ":3"}, "NAME:COUNT"},
		{Options{Gres: "gpu,"}, "NAME"},
	} {
		if _, err := OneMachine(test.o, 0); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want a sentence with %q", test.o, err, test.says)
		}
	}
}

// A directory serves one `stint up` at a time, and keeps what belongs to it to its owner.
func TestDir(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "c"))
	if err := d.Make(0o755); err != nil {
		t.Fatal(err)
	}
	if p, err := d.LoadProcesses(); p != nil || err != nil {
		t.Errorf("processes of a cluster that never ran: %v %v", p, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, ErrRunning) {
		t.Errorf("locked twice: %v", err)
	}
	if err := d.SaveProcesses(&Processes{Pid: 7, Children: map[string]int{"bus": 8}}); err != nil {
		t.Fatal(err)
	}
	if p, err := d.LoadProcesses(); err != nil || p == nil || p.Pid != 7 || p.Children["bus"] != 8 {
		t.Errorf("processes: %v %v", p, err)
	}
	lock.Close()
	if p, err := d.LoadProcesses(); p != nil || err != nil {
		t.Errorf("processes of a cluster that is down: %v %v", p, err)
	}
	want := &Cluster{Name: "x", URL: "nats://127.0.0.1:1", Nodes: []string{"a", "b"}, Options: Options{Nodes: "a,b"}}
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Load(); err != nil || got.Name != want.Name || len(got.Nodes) != 2 || got.Options != want.Options {
		t.Errorf("loaded %+v, %v", got, err)
	}
	for path, mode := range map[string]os.FileMode{string(d): 0o755, d.Keys(): 0o700, d.Bus(): 0o700, d.Logs(): 0o700, filepath.Dir(d.Spool("n")): 0o711} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, info.Mode().Perm(), err, mode)
		}
	}
}

func TestReadConf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nNodeName=n[1-2] CPUs=4 RealMemory=1000 Gres=gpu:2\nPartitionName=p Nodes=ALL Default=YES\n"
	c, _, err := ReadConf(write("slurm.conf", good), 1000)
	if err != nil || c.Cluster != "c" || len(c.Nodes) != 1 || len(c.AdminUids) < 2 {
		t.Errorf("%v, %v", c, err)
	}
	for text, says := range map[string]string{
		good + "NoSuchKey=1\n": "NoSuchKey",
		"ClusterName=c\nNodeName=n1 CPUs=x\nPartitionName=p Nodes=n1\n": "CPUs",
	} {
		if _, _, err := ReadConf(write("bad.conf", text), 0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want a sentence with %q", text, err, says)
		}
	}
	if _, _, err := ReadConf(filepath.Join(dir, "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// With --virtual every node is played here, whatever its definition says; without it those that can only be here.
func TestLocalNodes(t *testing.T) {
	here := HostName()
	head := "ClusterName=c\nSlurmctldHost=h\nPartitionName=p Nodes=ALL Default=YES\n"
	for _, c := range []struct {
		nodes   string
		virtual bool
		names   string
		played  string // definitions that are; empty: none
		fails   string
	}{
		{"NodeName=n[1-2] NodeAddr=localhost CPUs=2\nNodeName=n3 CPUs=2\n", true, "n1,n2,n3", "n[1-2] n3", ""},
		{"NodeName=n[1-2] NodeAddr=localhost CPUs=2\nNodeName=n3 CPUs=2\n", false, "n1,n2", "n[1-2]", ""},
		{"NodeName=n3 CPUs=2\nNodeName=n[1-2] NodeAddr=localhost CPUs=2\nNodeName=n4 CPUs=2\n", true, "n3,n1,n2,n4", "n3 n[1-2] n4", ""},
		{"NodeName=n[1-3] CPUs=2\n", true, "n1,n2,n3", "n[1-3]", ""},
		{"NodeName=n[1-3] CPUs=2\n", false, "", "", "--virtual"},
		{"NodeName=" + here + " CPUs=2\nNodeName=n9 CPUs=2\n", false, here, "", ""},
		{"NodeName=c[1-10000] CPUs=2\nNodeName=" + here + " CPUs=2\n", false, here, "", ""},
		{"NodeName=c[1-10000] CPUs=2\n", true, "", "", "plays 1024 at most"},
		{"NodeName=n1 NodeHostname=" + here + " CPUs=2\nNodeName=n2 NodeHostname=" + here + " CPUs=2\n", false, "n1,n2", "n1 n2", ""},
	} {
		path := filepath.Join(t.TempDir(), "slurm.conf")
		if err := os.WriteFile(path, []byte(head+c.nodes), 0o644); err != nil {
			t.Fatal(err)
		}
		config, _, err := ReadConf(path, 0)
		if err != nil {
			t.Fatalf("%q: %v", c.nodes, err)
		}
		names, played, err := LocalNodes(config, c.virtual)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, want a sentence with %q", c.nodes, err, c.fails)
			}
			continue
		}
		var defs []string
		for _, d := range config.Nodes {
			if d.Virtual {
				defs = append(defs, d.Names)
			}
		}
		if err != nil || strings.Join(names, ",") != c.names || strings.Join(defs, " ") != c.played || played != (c.played != "") {
			t.Errorf("%q, virtual %v: %v, %v, defs %q, %v", c.nodes, c.virtual, names, played, defs, err)
		}
	}
}
