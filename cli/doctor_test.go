package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/cli/site"
	"stint/events"
	"stint/events/bus/jet"
	"stint/projections"
)

func (d *report) lines() (out []string) {
	for _, f := range d.found {
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
	d := &report{}
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
		{10, 0, 0, "fault | disk | /d has 10 MiB left for the log; a cluster needs 64 MiB to start | make room there, or move the cluster with --dir"},
		{100, 0, 0, "fault | disk | /d has 100 MiB left for the log | make room there, or move the cluster with --dir"},
		{1000, 0, 0, "warning | disk | /d has 1000 MiB left for the log | make room there, or move the cluster with --dir"},
		{9000, 1_000_000, 500_000, "ok | disk | /d has 9000 MiB left for the log"},
		{9000, 1_000_000, 50, "ok | disk | /d has 9000 MiB left for the log\nfault | disk | /d can take only 50 more files | remove files there: df -i /d"},
	} {
		d := &report{}
		judgeDisk(d, "/d", "the log", test.mib, test.files, test.free)
		if got := strings.Join(d.lines(), "\n"); got != test.want {
			t.Errorf("%+v: %q", test, got)
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
	if err := os.WriteFile(key, []byte("S"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Save(&site.Cluster{Name: "c", Nodes: []string{"n1"}}); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir.Node("n1"): 0o700, dir.Spool("n1"): 0o711} {
		if err := errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	look := func() string {
		d := &report{}
		checkFolders(d, &scene{dir: dir})
		checkKeys(d, &scene{dir: dir})
		return strings.Join(d.lines(), "\n")
	}
	if got := look(); !strings.Contains(got, "ok | folders | ") || !strings.HasSuffix(got, "ok | keys | 1, their owner's alone") {
		t.Errorf("as it is made: %s", got)
	}
	for path, mode := range map[string]os.FileMode{key: 0o644, dir.Ledger(): 0o755, dir.Spool("n1"): 0o700, string(dir): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"fault | keys | others may read admin | chmod 600 " + key, "fault | folders | others may look into " + dir.Ledger(), "fault | folders | users cannot enter " + dir.Spool("n1"), "chmod go-w " + string(dir)} {
		if got := look(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// A check that hangs is a finding itself, says what it waits for, and keeps nobody.
func TestDoctorWaitsForNobody(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	begun := time.Now()
	found := check{name: "bus", most: 20 * time.Millisecond, run: func(r *report, _ *scene) {
		r.add(well, "bus", "", "at nats://h:1")
		r.on("asking the bus for its streams")
		<-hold
		r.add(well, "bus", "", "too late")
	}}.within(&scene{})
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(found) != 2 || found[0].Text != "at nats://h:1" || found[1].Level != fault || !strings.HasPrefix(found[1].Text, "no answer in 20ms: asking the bus for its streams") {
		t.Errorf("it found %+v", found)
	}
}

// finds runs one judgement and compares its lines, all of them.
func finds(t *testing.T, judge func(*report), want ...string) {
	t.Helper()
	r := &report{}
	judge(r)
	if got := r.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Processes: which are missing, stopped, or short of files, and the command that mends it.
func TestDoctorProcesses(t *testing.T) {
	c := &site.Cluster{Name: "c", Embedded: true, Nodes: []string{"n1"}}
	up := &site.Processes{Pid: 1, Children: map[string]int{"bus": 2}}
	judge := func(up *site.Processes, there ...process) func(*report) {
		return func(r *report) { judgeProcesses(r, "/d", c, up, there) }
	}
	daemons := []process{{pid: 2, role: "bus", state: 'S'}, {pid: 3, role: "controller", state: 'T'}, {pid: 4, role: "agent", state: 'S', files: 1000, most: 1024}, {pid: 6, role: "executor", node: "n1", state: 'S'}, {pid: 7, role: "supervisor", node: "n1", state: 'S'}}
	finds(t, judge(nil), "fault | processes | the cluster c was made in /d, and none of its daemons runs on this host | stint up --detach --dir /d")
	finds(t, judge(up, daemons...),
		"fault | processes | the controller (process 3) is stopped by a signal: it answers nobody | kill -CONT 3",
		"fault | processes | the agent (process 4) has 1000 of 1024 files open | prlimit --pid 4 --nofile=65536, and LimitNOFILE= for the next start",
		"fault | processes | no ledger runs here | `stint up` starts it again by itself within seconds; /d/log says why it ends",
		"ok | processes | 5 daemons of this cluster here")
	finds(t, judge(&site.Processes{Pid: 1, Children: map[string]int{}}, process{pid: 1, role: "up", state: 'S'}, process{pid: 7, role: "supervisor", node: "n1", state: 'S'}),
		"fault | processes | no executor of n1 runs here | `stint up`, or its service stint-executor@n1: what runs goes on, nothing new starts there",
		"ok | processes | 2 daemons of this cluster here")
	for line, want := range map[string]process{
		"/opt/stint bus --dir /d --lifeline":          {role: "bus"},
		"stint executor --node n1 --dir /d":           {role: "executor", node: "n1"},
		"stint supervisor --dir=/d/ --node=n2":        {role: "supervisor", node: "n2"},
		"stint bus --dir /e":                          {},
		"stint up --dir /d --detach":                  {},
		"vi stint bus --dir /d":                       {},
		"/opt/stint sbatch --dir /d":                  {},
		"stint-0.1.0 up --dir /d --config slurm.conf": {role: "up"},
	} {
		got, at, ok := daemonOfLine(strings.Fields(line))
		ok = ok && at == "/d"
		if ok != (want.role != "") || ok && got != want {
			t.Errorf("%s: %+v %v", line, got, ok)
		}
	}
}

// Logs: each kind of complaint of the last minutes is told once, with how often it was made and what mends it; older ones and news are not.
func TestDoctorLogs(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	line := func(ago time.Duration, rest string) string {
		return "time=" + now.Add(-ago).Format(time.RFC3339Nano) + " " + rest + "\n"
	}
	full := "level=ERROR msg=\"writing\" error=\"no space\""
	for _, k := range []struct{ text, want string }{
		{line(time.Minute, "level=INFO msg=leading"), ""},
		{line(time.Hour, full), ""},
		{line(2*time.Minute, full) + line(time.Minute, full) + line(time.Second, "level=WARN msg=slow"), "warning | logs | bus.log: msg=\"writing\" error=\"no space\" (2 times)\nnote | logs | bus.log: msg=slow"},
		{line(3*time.Minute, "level=WARN msg=slow job=1") + line(2*time.Minute, full) + line(time.Minute, "level=WARN msg=slow job=2"), "warning | logs | bus.log: msg=\"writing\" error=\"no space\"\nnote | logs | bus.log: msg=slow job=2 (2 times)"},
		{line(time.Minute, "level=WARN msg=\"lost the bus; connecting again\""), "note | logs | bus.log: msg=\"lost the bus; connecting again\" | see the findings on the bus; if it is well now, nothing"},
		{`{"time":"` + now.Add(-time.Minute).Format(time.RFC3339Nano) + `","level":"ERROR","msg":"writing","error":"no space left on device"}` + "\n", `warning | logs | bus.log: {"time":"2026-12-01T11:59:00Z","level":"ERROR","msg":"writing","error":"no space left on device"} | make room on that disk: df -h, df -i, quota`},
		{line(time.Minute, "level=ERROR msg=a") + line(time.Minute, "level=ERROR msg=b") + line(time.Minute, "level=ERROR msg=c") + line(time.Minute, "level=ERROR msg=d") + line(time.Minute, "level=ERROR msg=e") + line(time.Minute, "level=ERROR msg=f"),
			"warning | logs | bus.log: msg=a\nwarning | logs | bus.log: msg=b\nwarning | logs | bus.log: msg=c\nwarning | logs | bus.log: msg=d\nwarning | logs | bus.log: msg=e\nnote | logs | bus.log: and 1 kind more"},
		{line(time.Minute, "level=WARN msg=slow"), "note | logs | bus.log: msg=slow"},
		{line(time.Minute, "level=INFO msg=x") + "stint: starting the bus: no keys\n", "warning | logs | bus.log: stint: starting the bus: no keys"},
	} {
		r := &report{}
		told := judgeLog(r, "bus.log", k.text, now, now)
		if got := strings.Join(r.lines(), "\n"); got != k.want || told != (k.want != "") {
			t.Errorf("%q: %q, want %q", k.text, got, k.want)
		}
	}
}

// The log: each stream is there, as it must be, has a leader and current replicas, and was not stamped in the future.
func TestDoctorStreams(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	finds(t, func(r *report) {
		judgeStreams(r, []jet.Kept{{Name: "EVENTS", Last: 7, Bytes: 3 << 20, LastTime: now.Add(-3 * time.Second), Replicas: 1}}, true, now)
	}, "ok | log | 7 entries, the last 3s ago, 3 MiB; each entry is on disk before it is acknowledged", "ok | log | its 1 streams are as they must be")
	finds(t, func(r *report) {
		judgeStreams(r, []jet.Kept{{Name: "EVENTS", Last: 7, LastTime: now.Add(time.Hour), Replicas: 3, Behind: []string{"s2 is offline"}}, {Name: "JOBS", Missing: true}, {Name: "BLOBS", Unfit: "sealed", Deleted: 3}}, false, now)
	},
		"fault | log | the stream EVENTS has no leader: nothing can be appended | most of the servers must be there: start them",
		"warning | log | a replica of the stream EVENTS: s2 is offline | look after that server",
		"fault | log | the last entry was stamped 1h0m0s from now: the clock of the bus was set back, or this host's is behind | set the clock right; until it has reached that time, what happens is stamped before what came earlier",
		"ok | log | 7 entries, the last -1h0m0s ago, 0 MiB; 3 copies; whether each entry is on disk before it is acknowledged, the servers do not say (sync_interval: always)",
		"fault | log | the stream JOBS is not there | `stint up` makes it; if it was there, restore the bus's folder",
		"fault | log | the stream BLOBS exists sealed | see deployments/nats for how it must be")
}

// The log has no holes: what could not be read when the bus started was cut off with all behind it, and where that is is told.
func TestDoctorHoles(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	finds(t, func(r *report) {
		judgeCutOff(r, []string{"/d/bus/cut-off-EVENTS-178-20261201T120000.000"})
		judgeStreams(r, []jet.Kept{{Name: "EVENTS", First: 1, Last: 7, LastTime: now, Deleted: 2, Replicas: 1}}, true, now)
	},
		"warning | log | from entry 178 on the log could not be read when the bus started at 20261201T120000.000; what lay there was cut off, and is in /d/bus/cut-off-EVENTS-178-20261201T120000.000 | nothing, if the power had gone: none of it was acknowledged. Else look after that disk. Then remove the file",
		"fault | log | 2 entries between 1 and 7 are missing | stop the bus, look after its disk, and restore its folder from a copy that is whole",
		"ok | log | 7 entries, the last 0s ago, 0 MiB; each entry is on disk before it is acknowledged")
}

// The queue: how many wait for which reason; what does not pass by itself is a warning.
func TestDoctorQueue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	job := func(id uint32, reason events.Reason, change func(*projections.Job)) *projections.JobView {
		v := &projections.JobView{Job: &projections.Job{Id: id, State: events.JobState_PENDING, SubmitUs: now.Add(-time.Hour).UnixMicro()}}
		if reason != events.Reason_NONE {
			v.Outcome = &projections.Outcome{Reason: reason}
		}
		if change != nil {
			change(v.Job)
		}
		return v
	}
	jobs := []*projections.JobView{job(1, events.Reason_RESOURCES, nil), job(2, events.Reason_LICENSES, nil), job(3, events.Reason_LICENSES, nil), job(4, events.Reason_NONE, nil),
		job(5, events.Reason_NONE, func(j *projections.Job) {
			j.Recurs, j.Hold, j.Reason = true, events.HoldKind_HELD_USER, events.Reason_JOB_HELD_USER
		})}
	finds(t, func(r *report) { judgeQueue(r, jobs, []*projections.Node{{Name: "n1", Up: true}}, now) },
		"ok | queue | 5 jobs wait, the oldest submitted 1h0m0s ago: 2 Licenses, 1 Resources, 1 None, 1 JobHeldUser; 1 nodes have no job",
		"fault | queue | no pass has looked at 1 job that waits for 30 s | see the leader above",
		"warning | queue | 1 job of a crontab is held: they do not recur | scontrol release")
	finds(t, func(r *report) { judgeQueue(r, nil, nil, now) }, "ok | queue | nothing waits")
	why := &projections.AnswerWhy{Explanation: &projections.Explanation{
		Partitions: []*projections.PartitionStanding{{Partition: "main", Nodes: []*projections.NodeStanding{{Count: 3, What: "with too little memory", Text: "5000 of 1000 MiB"}}}},
		Remedies:   []*projections.Remedy{{Change: "scontrol update jobid=1 MinMemoryNode=1000"}},
	}}
	finds(t, func(r *report) {
		judgeWhy(r, &waitingJobs{reason: events.Reason_BAD_CONSTRAINTS, n: 2, label: "1"}, why)
	}, "warning | queue | 2 jobs wait: BadConstraints, which does not pass by itself: no node has what they ask for; for job 1 the nodes stand so: 3 of partition main with too little memory (5000 of 1000 MiB) | stint why 1 says more; this would start it now: scontrol update jobid=1 MinMemoryNode=1000")
}

// Configuration: what is allowed and keeps jobs from running, and what was changed and is not in force.
func TestDoctorConfiguration(t *testing.T) {
	conf := func(change func(*events.Config)) *events.Config {
		c := &events.Config{MaxJobCount: 10, Nodes: []*events.NodeDef{{Names: "n[1-3]", Cpus: 4}}, Partitions: []*events.PartitionDef{{Name: "main", Nodes: "n[1-2]", Default: true, MaxTimeS: 60, MaxNodes: 9}}}
		change(c)
		return c
	}
	as := func(*events.Config) {}
	finds(t, func(r *report) { judgeForce(r, conf(as)) }, "warning | partitions | n3 is in no partition: no job runs there | name them in Nodes= of a partition, then: scontrol reconfigure")
	finds(t, func(r *report) {
		judgeForce(r, conf(func(c *events.Config) {
			c.Partitions[0].Nodes, c.Partitions[0].MaxTimeS, c.Partitions[0].MinNodes = "ALL", 0, 5
			c.Licenses = []*events.LicenseDef{{Name: "matlab"}}
		}))
	},
		"warning | partitions | partition main lets no job run for any time (MaxTime=0) | correct it in slurm.conf, then: scontrol reconfigure",
		"warning | partitions | partition main wants at least 5 nodes of each job, and has 3 | correct it in slurm.conf, then: scontrol reconfigure",
		"warning | licenses | there are 0 of the licence matlab: jobs that ask for it never run | correct Licenses= in slurm.conf, then: scontrol reconfigure")
	finds(t, func(r *report) { judgeDrift(r, 5, conf(as), conf(as), conf(as)) }, "ok | in force | as the file has it, since 5")
	more := conf(func(c *events.Config) { c.Nodes[0].Cpus = 8 })
	r := &report{}
	judgeDrift(r, 5, conf(as), conf(as), more)
	judgeDrift(r, 5, conf(as), more, conf(as))
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{"warning | in force | the file was changed since it was taken over, and this is not in force: node n[1-3] changed", "note | in force | administrators changed with scontrol"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// Followers: who lags or has fallen silent; partitions that start nothing; a clock that is adrift.
func TestDoctorFollowers(t *testing.T) {
	st := &projections.AnswerStats{Leader: "h-1", LogSeq: 100, Seq: 100, Followers: []*projections.Follower{{Kind: "controller", Name: "h-1"}, {Kind: "ledger", Name: "h"}, {Kind: "executor", Name: "n1", Count: 3}}}
	judge := func(r *report) { judgeFollowers(r, st) }
	finds(t, judge, "ok | followers | 1 controller, 1 ledger, 0 agents, 3 executors heard, none behind; the log goes to 100")
	st.Followers[1].Behind, st.Followers[1].BehindUs = 50, 60e6
	st.Followers[0].SilentUs = 90e6
	finds(t, judge, "note | followers | the controller h-1 was last heard 1m30s ago: it has ended, or is cut off",
		"warning | followers | the ledger h is 50 messages behind the log, for 1m0s | it catches up by itself; if it does not, look at its host")
	finds(t, func(r *report) {
		judgePartitions(r, &projections.AnswerNodes{
			Nodes:      []*projections.Node{{Name: "n1", Up: true, Partitions: []string{"a", "b"}}, {Name: "n2", Up: true, Drain: true, Partitions: []string{"c"}}},
			Partitions: []*events.PartitionDef{{Name: "a"}, {Name: "b", State: events.PartitionState_PARTITION_DOWN_STATE}, {Name: "c"}, {Name: "d", Nodes: "m1"}},
		})
	},
		"warning | partitions | partition b is down: it takes jobs and starts none | scontrol update partitionname=b state=up",
		"warning | partitions | none of the 1 nodes of partition c takes jobs | see the nodes above",
		"warning | partitions | partition d has no nodes (Nodes=m1) | correct Nodes= of it in slurm.conf, then: scontrol reconfigure",
		"ok | partitions | 1 takes and starts jobs")
	finds(t, func(r *report) { judgeClock(r, time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), false, 0) }, "fault | clock | it is said to be 1970-01-01 00:00:00 | keep it right: install chrony or systemd-timesyncd")
}

// Commands: whose come first on PATH, and to whom they speak.
func TestDoctorCommands(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	for _, at := range []string{own, other} {
		for _, name := range []string{"sbatch", "squeue"} {
			if err := os.WriteFile(filepath.Join(at, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	mine := map[string]bool{filepath.Join(own, "sbatch"): true, filepath.Join(own, "squeue"): true}
	path := func(dirs ...string) func(*report) {
		return func(r *report) { judgePath(r, dirs, []string{"sbatch", "squeue"}, mine, "/d") }
	}
	finds(t, path(own, other), "ok | commands | 2 of Slurm's names on PATH are this installation's")
	finds(t, path(other, own), "warning | commands | on PATH come first, and are not Stint's: "+other+"/sbatch, "+other+`/squeue | eval "$(stint env --dir /d)", or take the others off PATH`)
	finds(t, path(t.TempDir()), `note | commands | Slurm's command names are not on PATH | eval "$(stint env --dir /d)"`)
	finds(t, func(r *report) {
		judgeEnviron(r, []string{"STINT_DIR=/e", "SLURM_CONF=/nowhere/slurm.conf", "SBATCH_HOLD=1"}, site.Dir("/d"))
	},
		"warning | commands | STINT_DIR is /e, so commands speak to the cluster there, and not to that in /d | export STINT_DIR=/d",
		"note | commands | SLURM_CONF is /nowhere/slurm.conf, which cannot be read (no such file or directory); Stint's commands do not read it, a job's programs may | unset SLURM_CONF",
		"note | commands | variables here are options of every command: SBATCH_HOLD | unset those that are not meant")
}

// Host name: that it leads somewhere, and back here.
func TestDoctorHostName(t *testing.T) {
	own := []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1)}, &net.IPNet{IP: net.IPv4(10, 0, 0, 5)}}
	look := func(own []net.Addr, addrs ...string) func(*report) {
		return func(r *report) { judgeHostName(r, "h", addrs, nil, own) }
	}
	finds(t, look(own, "10.0.0.5"), "ok | host name | h is 10.0.0.5")
	finds(t, look(own, "127.0.1.1"), "ok | host name | h is 127.0.1.1")
	finds(t, look(own, "fe80::1%eth0", "192.0.2.7"), "ok | host name | h is fe80::1%eth0 192.0.2.7")
	finds(t, look(nil, "192.0.2.7"), "ok | host name | h is 192.0.2.7")
	finds(t, look(own, "192.0.2.7"), "warning | host name | h is 192.0.2.7, which no interface of this host has: programs of jobs that call each other by the names of hosts do not find it | correct it: getent hosts h, /etc/hosts")
	finds(t, func(r *report) { judgeHostName(r, "h", nil, errors.New("no such host"), own) }, "warning | host name | the host's own name h has no address: no such host | add it to /etc/hosts")
}

// The log that a finding points to is there: a daemon that is a thread of `stint up` has none of its own.
func TestDoctorPointsToALogThatIsThere(t *testing.T) {
	dir := site.Dir(t.TempDir())
	if err := os.MkdirAll(dir.Logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, daemon := range []string{"", "up", "ledger"} {
		want := dir.Log("ledger")
		if daemon != "" {
			want = dir.Log(daemon)
			if err := os.WriteFile(want, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := logOf(dir, "ledger"); got != want {
			t.Errorf("with a log of %q it points to %s, not %s", daemon, got, want)
		}
	}
}
