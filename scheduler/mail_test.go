package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// Letters about the states of jobs are written once each, whichever of several controllers leads when.
func TestLettersAreSentOnce(t *testing.T) {
	dir := t.TempDir()
	program, box := filepath.Join(dir, "mail"), filepath.Join(dir, "box")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$3 $2 state=$SLURM_JOB_STATE\" >> "+box+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	letters := func() []string {
		text, _ := os.ReadFile(box)
		list := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(list)
		return list
	}
	hub := patientHub()
	a := run(t, hub, "a", t.TempDir())
	eventually(t, "a leads", a.busyLeading)
	b := run(t, hub, "b", "")
	w := &wishes{t: t, bus: hub.Connect("agent")}
	site := smallSite()
	site.MailProg, site.MailDomain, site.MinJobAgeS = program, "site.org", 300
	w.say(events.Verb_CONFIGURE, 0, site)
	submit := func(name, to string, types uint32) {
		w.say(events.Verb_SUBMIT, 1, &events.Submit{Components: []*events.JobSpec{{Name: name, WorkDir: "/", Script: &events.BlobRef{Length: 1}, MailTypes: types, MailUser: to}}})
	}
	end := func(r *running, id uint32) {
		w.say(events.Verb_CANCEL, 0, &events.Cancel{Targets: []*events.Target{{Job: id}}})
		eventually(t, fmt.Sprint("job ", id, " is over"), func() bool {
			got := jobs(r, id).GetJobs()
			return len(got) == 1 && got[0].Job.Over()
		})
	}
	submit("one", "", slurm.MailEnd)
	submit("two", "x@y", slurm.MailEnd|slurm.MailFail|slurm.MailBegin)
	submit("silent", "x@y", 0)
	submit("begin", "x@y", slurm.MailBegin)
	submit("option", "-A/etc/shadow", slurm.MailEnd) // who speaks to the log past our commands
	for id := range uint32(5) {
		if id != 1 {
			end(a, id+1)
		}
	}
	eventually(t, "a writes", func() bool { return len(letters()) == 1 && letters()[0] != "" })
	a.stop()
	eventually(t, "b leads", b.busyLeading)
	end(b, 2)
	want := []string{
		"root@site.org Slurm Job_id=1 Name=one Ended, Run time 00:00:00, CANCELLED, ExitCode 0 state=CANCELLED",
		"x@y Slurm Job_id=2 Name=two Ended, Run time 00:00:00, CANCELLED, ExitCode 0 state=CANCELLED",
	}
	eventually(t, "b writes", func() bool { return len(letters()) >= 2 })
	b.stop()
	if got := letters(); !slices.Equal(got, want) {
		t.Errorf("letters:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A job that goes on after it was suspended has not begun again.
func TestBeginIsToldOncePerRun(t *testing.T) {
	j := &projections.Job{Id: 7, Run: 2, PlacedSeq: 40, State: events.JobState_RUNNING, Spec: &events.JobSpec{MailTypes: slurm.MailBegin}}
	for _, c := range []struct {
		run  uint32
		seq  uint64
		want bool
	}{{2, 40, true}, {2, 44, false}, {1, 20, true}} {
		got := newsOf(nil, j, &projections.JobEventBody{Job: 7, State: "RUNNING", Run: c.run, Seq: c.seq, Time: "2026-01-01T00:00:00Z"})
		if (got != nil) != c.want {
			t.Errorf("run %d at %d: %v", c.run, c.seq, got)
		}
	}
}

// A part of a time limit is told in the look that it falls into, and in no other; of several parts the latest.
func TestPartsOfATimeLimit(t *testing.T) {
	all := slurm.MailTimeLimit50 | slurm.MailTimeLimit80 | slurm.MailTimeLimit90
	const s = int64(1_000_000)
	for _, c := range []struct {
		types    uint32
		limit    uint32
		from, to int64 // seconds after the start
		want     uint32
	}{
		{all, 100, 0, 49, 0}, {all, 100, 49, 50, slurm.MailTimeLimit50}, {all, 100, 50, 79, 0}, {all, 100, 50, 85, slurm.MailTimeLimit80},
		{all, 100, 40, 95, slurm.MailTimeLimit90}, {all, 100, 90, 100, 0}, {slurm.MailTimeLimit50, 100, 40, 95, slurm.MailTimeLimit50},
		{slurm.MailEnd, 100, 40, 95, 0}, {all, events.Unlimited, 0, 1 << 30, 0},
	} {
		j := &projections.Job{State: events.JobState_RUNNING, StartUs: 1000 * s, LimitS: c.limit, Spec: &events.JobSpec{MailTypes: c.types}}
		if got := limitKind(j, (1000+c.from)*s, (1000+c.to)*s); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
