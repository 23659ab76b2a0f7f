package conf

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the code does into the expected output")

// fromMap reads files out of a map.
func fromMap(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
		}
		return []byte(text), nil
	}
}

func show(r *Result) string {
	var b strings.Builder
	c := r.Config.CloneVT()
	nodes, parts, settings := c.Nodes, c.Partitions, c.Settings
	c.Nodes, c.Partitions, c.Settings = nil, nil, nil
	enc := func(v any) string { t, _ := json.Marshal(v); return string(t) }
	fmt.Fprintf(&b, "%s\n", enc(c))
	for _, s := range settings {
		fmt.Fprintf(&b, "setting %s=%s\n", s.Key, s.Value)
	}
	for _, n := range nodes {
		fmt.Fprintf(&b, "node %s\n", enc(n))
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "partition %s\n", enc(p))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Class, n)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if err := r.Refusal(); err != nil {
		fmt.Fprintf(&b, "refused: %v\n", err)
	}
	return b.String()
}

// The files of two sites, and what is read out of them.
func TestSites(t *testing.T) {
	for _, site := range []string{"site", "cluster"} {
		r, err := Load(filepath.Join("testdata", site, "slurm.conf"), os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		got, file := show(r), filepath.Join("testdata", site+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(file)
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", site, got, want)
		}
	}
}

// Every key that any release of Slurm from 22.05 to 26.05 knows is known, and has a class and, unless honoured, a sentence.
func TestAllKeysAreKnown(t *testing.T) {
	text, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(text))
	if len(names) < 248 {
		t.Fatalf("only %d keys in the list", len(names))
	}
	for _, name := range names {
		if _, ok := keyNames.Get()[strings.ToLower(name)]; !ok && !strings.EqualFold(name, "include") {
			t.Errorf("%s is not known", name)
		}
	}
	seen := map[string]bool{}
	for _, n := range Keys() {
		if seen[n.Key] {
			t.Errorf("%s is in the table twice", n.Key)
		}
		seen[n.Key] = true
		if (n.Class == Honoured) != (n.Text == "") {
			t.Errorf("%s: class %s with the sentence %q", n.Key, n.Class, n.Text)
		}
		_, set := setters.Get()[n.Key]
		record := strings.Contains(" NodeName PartitionName NodeSet DownNodes ", " "+n.Key+" ")
		if (n.Class == Honoured) != (set || record) {
			t.Errorf("%s: class %s, but it has an effect: %t", n.Key, n.Class, set || record)
		}
	}
}

const twoNodes = "NodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"

func TestLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"continuation", "PartitionName=p \\\n  Nodes=n1 \\\n  Default=YES\nNodeName=n[1-2] CPUs=4 \\\n RealMemory=100\n", `"names":"n[1-2]"`},
		{"escaped hash, quotes", "NodeName=n1 Reason=\"a b\" State=down Features=x\\#y\n", `"features":["x#y"],"weight":1,"state":"DOWN","reason":"a b"`},
		{"blanks around =", "ClusterName = Abc\n", `"cluster":"abc"`},
		{"keys of any case, last wins", "killwait=5\nKILLWAIT=7\n", "warning: /etc/slurm.conf:2: KillWait was set before at /etc/slurm.conf:1; the last one counts"},
		{"include", "ClusterName=c\nInclude nodes-%c.conf\n", `"names":"inc1"`},
		{"defaults", "NodeName=DEFAULT CPUs=8 RealMemory=10G\nNodeName=a\nNodeName=DEFAULT Weight=3\nNodeName=b CPUs=2\n", `"names":"b","boards":1,"sockets":2,"cores_per_socket":1,"threads_per_core":1,"cpus":2,"memory_mib":10240,"weight":3`},
		{"partition defaults", twoNodes + "PartitionName=DEFAULT MaxTime=10 Nodes=n1\nPartitionName=a\nPartitionName=b MaxTime=1:00:00\n", `{"name":"b","nodes":"n1","max_time_s":3600`},
		{"node set", "NodeName=n[1-3] Feature=x\nNodeName=m1 Feature=y\nNodeSet=s Feature=y\nNodeSet=u Nodes=n[2-3]\nPartitionName=p Nodes=s,n1,u\n", `"nodes":"m1,n[1-3]"`},
		{"down nodes", "NodeName=n[1-4] CPUs=1\nDownNodes=n[2-3] State=DRAIN Reason=\"bad fan\"\n", `"names":"n[2-3]"`},
		{"threads unused", "NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUs=8\n", `"threads_per_core":1,"cpus":8`},
		{"sockets per board", "NodeName=n1 Boards=2 SocketsPerBoard=1 CoresPerSocket=4\n", `"boards":2,"sockets":2,"cores_per_socket":4,"threads_per_core":1,"cpus":8`},
		{"secret", "AccountingStoragePass=hunter2\n", "setting AccountingStoragePass=\n"},
		{"switched off", "Epilog=\nJobSubmitPlugins=none\nUsePAM=0\nHealthCheckProgram=(null)\n", "harmless: /etc/slurm.conf:4: HealthCheckProgram=(null): it is switched off"},
		{"refused", "Prolog=/x.sh\n", "refused: /etc/slurm.conf:1: Prolog=/x.sh"},
		{"scheduler parameters", "SchedulerParameters=bf_window=60,bf_resolution=10,bf_windw=3,max_script_size=100\n", "SchedulerParameters knows no bf_windw; did you mean bf_window?"},
		{"scheduler parameters without effect", "SchedulerParameters=defer,bf_continue\n", "harmless: /etc/slurm.conf:1: SchedulerParameters=defer: jobs are placed when something changes"},
		{"requests", "SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=5\n", "harmless: /etc/slurm.conf:1: SlurmctldParameters=enable_configless: executors read"},
		{"requests that are not limited", "SlurmctldParameters=rl_bucket_size=5\n", "SlurmctldParameters=rl_bucket_size: it does nothing without rl_enable"},
		{"controller parameters", "SlurmctldParameters=rl_bucket_sise=5\n", "SlurmctldParameters knows no rl_bucket_sise; did you mean rl_bucket_size?"},
		{"linear", "SelectType=select/linear\n", `"select_linear":true`},
		{"limits of resources", "PropagateResourceLimits=NONE\n", `"propagate_none":true`},
		{"emulation", "SlurmCompat=22.05\n", `"compat":"22.05"`},
		{"old names", "ControlMachine=a\nBackupController=b\n", `"controllers":["a","b"]`},
		{"private data", "PrivateData=Jobs,nodes,jobs\n", `"private_data":[1,2]`},
		{"crontabs", "ScronParameters=Enable,explicit_scancel\n", `"crontabs":true,"cron_cancel_explicit":true`},
		{"private data that is nothing here", "PrivateData=cloud,none\n", "warning: /etc/slurm.conf:1: PrivateData=cloud has no effect: there are no nodes that power down"},
		{"DOS line ends", "ClusterName=dos\r\nKillWait=9\r\n", `"kill_wait_s":9`},
		{"as configured", "NodeName=n1 CPUs=4\nSlurmdParameters=config_overrides\n", `"as_configured":true`},
		{"CPUs for the system", "NodeName=DEFAULT CpuSpecList=6-7\nNodeName=n1 CPUs=8\n", `"core_spec":2`},
		{"any thread of a core is the core", "NodeName=n1 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=7\n", `"core_spec":1`},
		{"cores as the nodes have it", "AllowSpecResourcesUsage=No\n", "harmless: /etc/slurm.conf:1: AllowSpecResourcesUsage=No"},
		{"cores as jobs like", "AllowSpecResourcesUsage=yes\n", "refused: /etc/slurm.conf:1: AllowSpecResourcesUsage=yes"},
		{"oversubscribe", twoNodes + "PartitionName=f Nodes=ALL OverSubscribe=FORCE:2 State=DRAIN MaxNodes=UNLIMITED\n", `"state":2,"oversubscribe":"FORCE:2"`},
	} {
		r, err := Load("/etc/slurm.conf", fromMap(map[string]string{"/etc/slurm.conf": c.text, "/etc/nodes-c.conf": "NodeName=inc1\n"}))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := show(r); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"KilWait=3\n", "/etc/slurm.conf:1: unrecognized key KilWait; did you mean KillWait?"},
		{"\n\nKillWait=abc\n", `/etc/slurm.conf:3: KillWait: "abc" is not a whole number from 0 to 65533`},
		{"nonsense\n", `/etc/slurm.conf:1: "nonsense" is not KEY=VALUE`},
		{"NodeName=n1 CPU=3\n", "unrecognized key; did you mean CPUs?"},
		{"NodeName=n1\nNodeName=n[1-2]\n", "the node n1 is defined twice, here and at /etc/slurm.conf:1"},
		{"NodeName=n[1-\n", "a bracket is not closed"},
		{"PartitionName=p Nodes=x\n", "there is no node or node set x"},
		{"PartitionName=p\nPartitionName=p\n", "defined twice"},
		{"NodeName=n1 Gres=gpu:2\n", "GresTypes does not name"},
		{"NodeName=n1 CPUs=8 Sockets=2 CoresPerSocket=2\n", "more than 2 sockets of 2 cores with 1 threads have"},
		{"NodeName=n1 CPUs=3 Sockets=2 CoresPerSocket=2\n", "neither the 4 threads nor the 4 cores"},
		{"Include self.conf\n", "more than 16 deep"},
		{"Include none.conf\n", "reading /etc/none.conf"},
		{"ClusterName=\"x\n", "quotation mark of ClusterName is not closed"},
		{"SlurmctldParameters=rl_enable,rl_refill_rate=0\n", `SlurmctldParameters: rl_refill_rate: "0" is not a whole number from 1 to 1048576`},
		{"SelectType=select/bluegene\n", "not one of select/cons_tres"},
		{"NodeName=n1 State=CLOUD\n", "not supported yet"},
		{"NodeName=n[1-3] NodeAddr=a[1-2]\n", "2 names for 3 nodes"},
		{twoNodes + "PartitionName=q Nodes=ALL MaxTime=10m\n", "PartitionName=q: MaxTime:"},
		{"ScronParameters=enabled\n", `ScronParameters: "enabled" is not one of enable, explicit_scancel; did you mean enable?`},
		{"PrivateData=job\n", `PrivateData: "job" is not one of accounts, events, jobs, nodes, partitions, reservations, usage, users; did you mean jobs?`},
		{"NodeName=n1 CPUs=8 CpuSpecList=0,1\n", "CpuSpecList=6-7 keeps as many"},
		{"NodeName=n1 CPUs=8 CpuSpecList=8\n", "CpuSpecList"},
		{"DownNodes=x\n", "there is no node x"},
	} {
		_, err := Load("/etc/slurm.conf", fromMap(map[string]string{"/etc/slurm.conf": c.text, "/etc/self.conf": "Include self.conf\n"}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %s", c.text, err, c.want)
		}
	}
}

func TestGres(t *testing.T) {
	main := "GresTypes=gpu\nNodeName=n[1-4] CPUs=1 Gres=gpu:a100:4\n"
	for _, c := range []struct{ gres, want string }{
		{"NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-7\n", `node {"names":"n[1-2]","boards":1,"sockets":1,"cores_per_socket":1,"threads_per_core":1,"cpus":1,"gres":[{"name":"gpu","type":"a100","count":4,"files":"/dev/nvidia[0-3]","cores":"0-7"}],"weight":1}
node {"names":"n[3-4]"`},
		{"Name=gpu File=/dev/nvidia[0-1] Cores=0\nName=gpu File=/dev/nvidia[2-3] Cores=1\n", `"gres":[{"name":"gpu","type":"a100","count":2,"files":"/dev/nvidia[0-1]","cores":"0"},{"name":"gpu","type":"a100","count":2,"files":"/dev/nvidia[2-3]","cores":"1"}]`},
		{"Name=gpu File=/dev/nvidia[0-7]\n", "warning: /etc/gres.conf:1: 8 devices of gpu, but slurm.conf gives n1 only 4"},
		{"Name=gpu File=/dev/nvidia0\n", "gres.conf has only 1 of 4"},
		{"NodeName=x Name=gpu\n", "there is no node x"},
		{"Name=gpu Count=3 File=/dev/nvidia[0-3]\n", "Count=3, but File names 4"},
		{"Name=gpu Cors=1\n", "did you mean Cores?"},
	} {
		r, err := Load("/etc/slurm.conf", fromMap(map[string]string{"/etc/slurm.conf": main, "/etc/gres.conf": c.gres}))
		got := fmt.Sprint(err)
		if err == nil {
			got = show(r)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s; want %s", c.gres, got, c.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"testdata/site/slurm.conf", "testdata/cluster/slurm.conf"} {
		text, _ := os.ReadFile(name)
		f.Add(string(text), "Name=gpu File=/dev/x[0-3]", "ConstrainCores=yes")
	}
	f.Add("NodeName=n[1-4] CPUs=8 Gres=gpu:2\nDownNodes=n[2-3]\nNodeSet=a Nodes=n1\nPartitionName=p Nodes=a\n\\\nInclude /etc/gres.conf", "NodeName=n1 Name=gpu", "AllowedRAMSpace=NaN")
	f.Fuzz(func(t *testing.T, main, gres, cgroup string) {
		if len(main)+len(gres)+len(cgroup) > 20000 {
			return
		}
		r, err := Load("/etc/slurm.conf", fromMap(map[string]string{"/etc/slurm.conf": main, "/etc/gres.conf": gres, "/etc/cgroup.conf": cgroup}))
		if err == nil && r.Config == nil {
			t.Fatal("neither a configuration nor an error")
		}
	})
}

// What one user may ask for: Stint's own figures, or, where the site switches it on, those of rl_*, with Slurm's for what is not said.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		text string
		want Requests
	}{
		{"ClusterName=a\n", OwnRequests()},
		{"SlurmctldParameters=rl_bucket_size=7\n", OwnRequests()},
		{"SlurmctldParameters=rl_enable\n", Requests{All: true, Bucket: 30, Refill: 2, Period: time.Second}},
		{"SlurmctldParameters=cloud_dns,RL_Enable,rl_bucket_size=50,rl_refill_rate=10,rl_refill_period=4,rl_log_freq=-1\n", Requests{All: true, Bucket: 50, Refill: 10, Period: 4 * time.Second, Log: -1}},
		{"SlurmctldParameters=rl_enable,rl_log_freq=60\nSchedulerParameters=max_script_size=1000\n", Requests{All: true, Bucket: 30, Refill: 2, Period: time.Second, Log: time.Minute, Script: 1000}},
	} {
		r, err := Load("/etc/slurm.conf", fromMap(map[string]string{"/etc/slurm.conf": c.text}))
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		if got := RequestsOf(r.Config.Settings); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.text, got, c.want)
		}
	}
}
