package slurm

import (
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

func TestLetterSubjects(t *testing.T) {
	const s = int64(1_000_000)
	spec := &events.JobSpec{Name: "my job", Array: &events.ArraySpec{Tasks: []uint64{0b1110}}}
	job := func(state events.JobState, code, signal uint32) *projections.Job {
		return &projections.Job{Id: 7, Spec: &events.JobSpec{Name: "my job"}, Owner: &events.Owner{User: "alice"}, State: state, SubmitUs: 10 * s, StartUs: 14 * s, EndUs: 90_075 * s, ExitCode: code, ExitSignal: signal}
	}
	task := &projections.Job{Id: 8, Spec: spec, ArrayId: 6, HasTask: true, ArrayTask: 2, Owner: &events.Owner{User: "alice"}, State: events.JobState_FAILED, StartUs: s, EndUs: 3 * s, ExitCode: 2}
	for _, c := range []struct {
		news JobNews
		want string
		env  string // one line of it
	}{
		{JobNews{Kind: MailBegin, Job: job(events.JobState_RUNNING, 0, 0)}, "Slurm Job_id=7 Name=my job Began, Queued time 00:00:04", "SLURM_JOB_QUEUED_TIME=00:00:04"},
		{JobNews{Kind: MailEnd, Job: job(events.JobState_COMPLETED, 0, 0)}, "Slurm Job_id=7 Name=my job Ended, Run time 1-01:01:01, COMPLETED, ExitCode 0", "SLURM_JOB_EXIT_CODE_MAX=0"},
		{JobNews{Kind: MailFail, Job: job(events.JobState_FAILED, 3, 0)}, "Slurm Job_id=7 Name=my job Failed, Run time 1-01:01:01, FAILED, ExitCode 3", "SLURM_JOB_EXIT_CODE=768"},
		{JobNews{Kind: MailEnd, Job: job(events.JobState_CANCELLED, 0, 15)}, "Slurm Job_id=7 Name=my job Ended, Run time 1-01:01:01, CANCELLED, ExitCode 0", "SLURM_JOB_EXIT_CODE2=0:15"},
		{JobNews{Kind: MailTimeLimit50, Job: job(events.JobState_RUNNING, 0, 0)}, "Slurm Job_id=7 Name=my job Reached 50% of time limit, Run time 00:00:16", "SLURM_JOB_MAIL_TYPE=Reached 50% of time limit"},
		{JobNews{Kind: MailFail, Job: task}, "Slurm Array Task Job_id=6_2 (8) Name=my job Failed, Run time 00:00:02, FAILED, ExitCode 2", "SLURM_ARRAY_TASK_COUNT=3"},
		{JobNews{Kind: MailBegin, Job: task, Array: &projections.Array{}}, "Slurm Array Summary Job_id=6_* (6) Name=my job Began", "SLURM_ARRAY_TASK_MAX=3"},
		{JobNews{Kind: MailFail, Job: task, Array: &projections.Array{MaxExitCode: 3}, Least: 1}, "Slurm Array Summary Job_id=6_* (6) Name=my job Failed, FAILED, ExitCode [1-3]", "SLURM_JOB_EXIT_CODE_MIN=1"},
		{JobNews{Kind: MailFail, Job: task, Array: &projections.Array{MaxExitCode: 3}}, "Slurm Array Summary Job_id=6_* (6) Name=my job Failed, Mixed, ExitCode [0-3]", "SLURM_JOB_EXIT_CODE_MAX=3"},
	} {
		l := c.news.Write(30 * s)
		if l.Subject != c.want || l.To != "alice" {
			t.Errorf("got %s to %s, want %s", l.Subject, l.To, c.want)
		}
		if !strings.Contains(strings.Join(l.Env, "\n")+"\n", c.env+"\n") {
			t.Errorf("%s: the environment lacks %s: %q", c.want, c.env, l.Env)
		}
	}
	evil := JobNews{Kind: MailBegin, Job: &projections.Job{Id: 1, Spec: &events.JobSpec{Name: "a\nBcc: all", MailUser: "x"}}, Domain: "site.org"}
	if l := evil.Write(0); strings.ContainsAny(l.Subject, "\r\n") || l.To != "x@site.org" {
		t.Errorf("%q to %q", l.Subject, l.To)
	}
}

func TestWhichStatesAreMailed(t *testing.T) {
	for _, c := range []struct {
		state        string
		wanted, kind uint32
	}{
		{"RUNNING", MailBegin | MailEnd, MailBegin}, {"RUNNING", MailEnd, 0}, {"COMPLETED", mailAll, MailEnd}, {"FAILED", mailAll, MailFail},
		{"FAILED", MailEnd, MailEnd}, {"CANCELLED", MailFail, 0}, {"REQUEUED", mailAll, MailRequeue}, {"COMPLETING", mailAll, 0}, {"PENDING", mailAll, 0},
	} {
		if got := MailKind(c.state, c.wanted); got != c.kind {
			t.Errorf("%s with %b: %b, want %b", c.state, c.wanted, got, c.kind)
		}
	}
}
