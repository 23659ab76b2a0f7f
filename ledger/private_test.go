package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/events"
	"stint/ledger/rows"
)

// What is in a job's environment and script is told to its owner and to administrators only, in rows as in stories; and with
// PrivateData others are not told that the job is there.
func TestPrivate(t *testing.T) {
	const alice, bob, secret = 2001, 2002, "hunter2"
	h := newHistory(t, 2)
	mine := h.submit("alice", alice, &events.JobSpec{Name: "mine", CpusPerTask: 1, Comment: "open", Export: "T=" + secret, SubmitLine: "sbatch --export=T=" + secret + " j",
		Script: &events.BlobRef{Subject: "b", Length: 9, Sha256: []byte(secret)}})
	theirs := h.submit("bob", bob, &events.JobSpec{Name: "theirs", CpusPerTask: 1})
	h.start(mine)
	h.finish(mine, 0, 0, events.JobState_COMPLETED, 0)
	body, err := (&events.Cancel{Targets: []*events.Target{{Job: mine}}}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	ref := h.intent(&events.Intent{Verb: events.Verb_CANCEL, Author: author("bob", bob), Body: body})
	h.cycle(&events.Fact{Kind: &events.Fact_Judged{Judged: &events.Judged{Intent: ref, Code: events.Code_ACCESS_DENIED, Text: "job " + fmt.Sprint(mine) + " is alice's"}}})
	l := open(t, vfs.NewMem(), Options{})
	defer l.Close()
	l.fetch = h
	feed(t, l, h, uint64(len(h.log)), 3)

	rowsOf := func(uid uint32) string {
		var out []string
		for _, r := range ask(t, l, &rows.Ask{Uid: &uid, What: &rows.Ask_Jobs{Jobs: &rows.AskJobs{Allocations: true}}}).Records {
			out = append(out, fmt.Sprintf("%d %s %s %s %d", r.Job.Job, r.Job.Comment, r.Job.SubmitLine, r.Job.Script.GetSubject(), len(r.Job.Script.GetSha256())))
		}
		return strings.Join(out, "; ")
	}
	storyOf := func(uid, job uint32) string {
		var out []string
		for _, line := range ask(t, l, &rows.Ask{Uid: &uid, What: &rows.Ask_Story{Story: &rows.AskStory{Job: job, Raw: true}}}).Story {
			out = append(out, line.Kind+" "+line.Who+" "+line.What+" "+line.Why+" "+line.Raw)
		}
		return strings.Join(out, "\n")
	}
	const whole = "1 open sbatch --export=T=hunter2 j b 7; 2    0"
	for uid, want := range map[uint32]string{0: whole, alice: whole, bob: "1 open sbatch --export=T=… j b 0; 2    0"} {
		if got := rowsOf(uid); got != want {
			t.Errorf("user %d is shown %q, want %q", uid, got, want)
		}
		for _, job := range []uint32{0, mine} {
			story := storyOf(uid, job)
			if got, want := strings.Count(story, secret), map[bool]int{true: 4, false: 0}[uid != bob]; got != want {
				t.Errorf("the story of %d for user %d holds the secret %d times, want %d:\n%s", job, uid, got, want, story)
			}
			for _, part := range []string{"submit alice@login1", "admitted", "placed", "ended", "open"} {
				if !strings.Contains(story, part) {
					t.Errorf("the story of %d for user %d lacks %q:\n%s", job, uid, part, story)
				}
			}
		}
	}

	config := h.c.Config().CloneVT()
	config.PrivateData = []events.Private{events.Private_PRIVATE_JOBS, events.Private_PRIVATE_NODES, events.Private_PRIVATE_EVENTS, events.Private_PRIVATE_USAGE}
	if body, err = config.MarshalVT(); err != nil {
		t.Fatal(err)
	}
	ref = h.intent(&events.Intent{Verb: events.Verb_CONFIGURE, Author: author("root", 0), Body: body})
	h.cycle(&events.Fact{Kind: &events.Fact_Configured{Configured: &events.Configured{Intent: ref, Config: config}}})
	feed(t, l, h, uint64(len(h.log)), 1)
	for uid, want := range map[uint32]string{0: whole, alice: "1 open sbatch --export=T=hunter2 j b 7", bob: "2    0"} {
		if got := rowsOf(uid); got != want {
			t.Errorf("with private jobs user %d is shown %q, want %q", uid, got, want)
		}
	}
	for _, line := range strings.Split(storyOf(bob, 0), "\n") {
		kind, _, _ := strings.Cut(line, " ")
		if strings.Contains(line, secret) || strings.Contains(line, "alice") || kind == "up" || kind == "refused" || kind == "placed" {
			t.Errorf("bob is told %s", line)
		}
	}
	if got := storyOf(bob, mine); got != "cancel bob@login1 cancels 1  "+storyRaw(got) {
		t.Errorf("of alice's job bob is told more than what he wished himself:\n%s", got)
	}
	if got := storyOf(bob, theirs); !strings.Contains(got, "submit bob@login1") || !strings.Contains(got, "admitted") {
		t.Errorf("of his own job bob is told only:\n%s", got)
	}
	if got := storyOf(alice, mine); !strings.Contains(got, secret) || !strings.Contains(got, "ended") {
		t.Errorf("of her own job alice is told only:\n%s", got)
	}
	if a := l.Answer(t.Context(), &rows.Ask{Uid: new(uint32(bob)), What: &rows.Ask_NodeEvents{NodeEvents: &rows.AskNodeEvents{}}}); !strings.Contains(a.Error, "Access/permission denied") {
		t.Errorf("bob asks for events of nodes: %v", a)
	}
	used := func(uid uint32, user string) (out []string) {
		for _, u := range l.Answer(t.Context(), &rows.Ask{Uid: &uid, User: user, What: &rows.Ask_Usage{Usage: &rows.AskUsage{}}}).Usage {
			out = append(out, u.User)
		}
		return out
	}
	if a, b, r := used(alice, "alice"), used(bob, "bob"), used(0, "root"); len(a) != 1 || len(b) != 0 || len(r) != 1 {
		t.Errorf("usage of alice is shown to alice %v, bob %v, root %v", a, b, r)
	}
}

// storyRaw is the JSON at the end of a line.
func storyRaw(line string) string {
	if i := strings.Index(line, "{"); i >= 0 {
		return line[i:]
	}
	return ""
}
