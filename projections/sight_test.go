package projections

import (
	"fmt"
	"strings"
	"testing"

	"stint/events"
)

// What --export sets and what --wrap holds is not shown to others, however it was written; the rest of the line is.
func TestMaskedLines(t *testing.T) {
	const secret = "hunter2"
	for line, want := range map[string]string{
		"sbatch -n 4 job.sh one two":                             "sbatch -n 4 job.sh one two",
		"sbatch --export=TOKEN=hunter2 job.sh":                   "sbatch --export=TOKEN=… job.sh",
		"sbatch --export=ALL,TOKEN=hunter2,B=hunter2 -N1 j":      "sbatch --export=ALL,TOKEN=… -N1 j",
		"sbatch --export=NONE j":                                 "sbatch --export=NONE j",
		"sbatch --export TOKEN=hunter2 j":                        "sbatch --export … j",
		"sbatch --expo=TOKEN=hunter2 j":                          "sbatch --expo=TOKEN=… j",
		"sbatch '--export=TOKEN=a hunter2' -p debug j":           "sbatch --export=TOKEN=… -p debug j",
		`sbatch '--export=T=it'\''s hunter2' -p debug j`:         "sbatch --export=T=… -p debug j",
		"sbatch '--wrap=curl -u me:hunter2 x' -p debug":          "sbatch --wrap=… -p debug",
		"sbatch --wrap 'echo hunter2' -p debug":                  "sbatch --wrap … -p debug",
		"sbatch --wr=hunter2":                                    "sbatch --wr=…",
		"sbatch --wrap 'echo a lot and then hunter2 and so o...": "sbatch --wrap …",
		"sbatch j 'an argument that is cut...":                   "sbatch j …",
		"sbatch --export-file=vars --wait-all-nodes=1 j":         "sbatch --export-file=vars --wait-all-nodes=1 j",
		"sbatch --exclude=n1 --exclusive --extra=x --wckey=w j":  "sbatch --exclude=n1 --exclusive --extra=x --wckey=w j",
		"": "",
	} {
		if got := maskLine(line); got != want {
			t.Errorf("%s\nis shown as %s\nand should be %s", line, got, want)
		}
	}
	for export, want := range map[string]string{"": "", "ALL": "ALL", "NONE": "NONE", "A,B": "A,B", "A=" + secret: "A=…", "ALL,A='x," + secret + "',B": "ALL,A=…"} {
		if got := maskExport(export); got != want {
			t.Errorf("--export=%s is shown as %s, want %s", export, got, want)
		}
	}
}

// Who sees what: a job's owner and administrators everything, others what the configuration leaves them, and never what is in
// its script or environment. Every kind of question is asked by all of them.
func TestSight(t *testing.T) {
	const owner, other, admin = 1001, 1002, 77
	spec := &events.JobSpec{
		Name: "mine", Partition: "p", Command: "/home/job.sh", Comment: "hello", Args: [][]byte{[]byte("arg")}, Export: "T=hunter2", SubmitLine: "sbatch --export=T=hunter2 job.sh arg",
		Script: &events.BlobRef{Subject: "blob", Sha256: []byte("x"), Length: 1}, Environment: &events.BlobRef{Subject: "blob", Sha256: []byte("x"), Length: 1},
	}
	for _, who := range []struct {
		uid     uint32
		private []events.Private
		there   bool // the job
		all     bool // of it
		nodes   bool
	}{
		{owner, nil, true, true, true}, {other, nil, true, false, true}, {admin, nil, true, true, true}, {0, nil, true, true, true},
		{owner, []events.Private{events.Private_PRIVATE_JOBS, events.Private_PRIVATE_NODES}, true, true, false},
		{other, []events.Private{events.Private_PRIVATE_JOBS}, false, false, true},
		{other, []events.Private{events.Private_PRIVATE_NODES, events.Private_PRIVATE_USAGE}, true, false, false},
		{admin, []events.Private{events.Private_PRIVATE_JOBS, events.Private_PRIVATE_NODES}, true, true, true},
		{0, []events.Private{events.Private_PRIVATE_JOBS, events.Private_PRIVATE_NODES}, true, true, true},
	} {
		s := SightOf(&events.Config{AdminUids: []uint32{admin}, PrivateData: who.private}, &who.uid)
		j := &Job{Id: 7, Spec: spec, Owner: &events.Owner{Uid: owner}, Reason: events.Reason_PRIORITY}
		if got := s.SeesJob(owner); got != who.there {
			t.Errorf("%+v: the job is there: %v", who, got)
		}
		shown := s.Job(j)
		if all := shown == j; all != who.all {
			t.Errorf("%+v: all of the job is shown: %v", who, all)
		}
		if got := shown.Spec; !who.all && (got.Script.Sha256 != nil || got.Environment.Sha256 != nil || got.Script.Subject != "blob" || got.Export != "T=…" || got.SubmitLine != "sbatch --export=T=… job.sh arg") {
			t.Errorf("%+v: is shown %v", who, got)
		}
		if got := shown.Spec; got.Command != spec.Command || got.Comment != spec.Comment || len(got.Args) != 1 || shown.Reason != j.Reason || shown.Id != 7 {
			t.Errorf("%+v: of what everybody sees is shown %v", who, got)
		}
		n := &Node{Name: "n1", Def: &events.NodeDef{Cpus: 4}, Up: true, Reason: "secret"}
		if got := s.Node(n); (got == n) != who.nodes || got.Name != "n1" || got.Def != n.Def || !who.nodes && (got.Up || got.Reason != "") {
			t.Errorf("%+v: of the node is shown %v", who, got)
		}
	}
	if spec.Export != "T=hunter2" || spec.Script == nil {
		t.Error("what is shown to others has changed the job itself")
	}
}

// A question that says not who asks is nobody's: not root's, who has the number that is also no number.
func TestNobody(t *testing.T) {
	c := &events.Config{AdminUids: []uint32{0}, PrivateData: []events.Private{events.Private_PRIVATE_JOBS, events.Private_PRIVATE_NODES}}
	s, root := SightOf(c, nil), uint32(0)
	if s.Owns(0) || s.Owns(1000) || s.SeesJob(0) || !s.Private(events.Private_PRIVATE_NODES) {
		t.Errorf("nobody sees what is somebody's: %+v", s)
	}
	if s := SightOf(c, &root); !s.Owns(1000) || !s.SeesJob(1000) || s.Private(events.Private_PRIVATE_NODES) {
		t.Errorf("root does not see all: %+v", s)
	}
	data, err := (&Ask{Uid: &root}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	back := new(Ask)
	if err := back.UnmarshalVT(data); err != nil || back.Uid == nil || *back.Uid != 0 {
		t.Errorf("who asked is lost on the way: %v %v", back, err)
	}
}

// With PrivateData no kind of question shows others' jobs, nodes or partitions, and what a user owns is shown as ever.
func TestPrivateAnswers(t *testing.T) {
	s := queue(t)
	config := s.c.Config().CloneVT()
	s.c.config = config
	alice, bob := uidOf("alice"), uidOf("bob")
	count := func(uid uint32) string {
		one := &AskJobs{Ids: []uint32{1}, AllStates: true}
		ask := func(q *Ask) *Answer { q.Uid = &uid; return Reply(s.c.View(), nil, q) }
		all := ask(&Ask{What: &Ask_Jobs{&AskJobs{AllStates: true}}}).GetJobs()
		single := ask(&Ask{What: &Ask_Jobs{one}}).GetJobs()
		array := ask(&Ask{What: &Ask_Jobs{&AskJobs{Ids: []uint32{3}, AllStates: true}}}).GetJobs()
		wait := ask(&Ask{What: &Ask_Wait{&AskWait{Ids: []uint32{1, 3, 6, 7}}}}).GetWait()
		why := ask(&Ask{What: &Ask_Why{&AskWhy{Job: 2}}})
		nodes := ask(&Ask{What: &Ask_Nodes{&AskNodes{}}}).GetNodes()
		named := ask(&Ask{What: &Ask_Nodes{&AskNodes{Names: "n1"}}}).GetNodes()
		up := 0
		for _, n := range append(nodes.Nodes, named.Nodes...) {
			if n.Up {
				up++
			}
		}
		return fmt.Sprintf("%d jobs, %d %v, array %d %v, wait %d of %d, gone %v, why %q ahead %d, %d partitions, %v nodes up",
			len(all.Jobs), len(single.Jobs), single.UnknownId, len(array.Jobs), array.UnknownId, len(wait.Ended), len(wait.Arrays), wait.Gone, why.Error, len(why.GetWhy().GetAhead()), len(nodes.Partitions), up)
	}
	open := count(bob)
	if !strings.HasPrefix(open, "7 jobs, 1 false, array 2 false, wait 3 of 1, gone [], why \"\"") {
		t.Errorf("everybody sees: %s", open)
	}
	config.PrivateData = []events.Private{events.Private_PRIVATE_JOBS}
	for uid, want := range map[uint32]string{
		0:     open,
		alice: "4 jobs, 1 false, array 2 false, wait 3 of 1, gone [], why \"job 2 is not hot: it never was, or it ended a while ago\"",
		bob:   "2 jobs, 0 true, array 0 true, wait 0 of 0, gone [1 3 6 7], why \"\" ahead 0",
	} {
		if got := count(uid); !strings.HasPrefix(got, want) {
			t.Errorf("with private jobs %d sees: %s\nwant: %s", uid, got, want)
		}
	}
	config.PrivateData = []events.Private{events.Private_PRIVATE_NODES, events.Private_PRIVATE_PARTITIONS}
	if got := count(bob); !strings.HasSuffix(got, ", 0 partitions, 0 nodes up") || !strings.HasPrefix(got, "7 jobs") {
		t.Errorf("with private nodes and partitions bob sees: %s", got)
	}
	if got := count(0); got != open {
		t.Errorf("with private nodes and partitions root sees: %s\nwant: %s", got, open)
	}
	config.AdminUids = append(config.AdminUids, bob)
	if got := count(bob); got != open {
		t.Errorf("an administrator sees: %s\nwant: %s", got, open)
	}
}
