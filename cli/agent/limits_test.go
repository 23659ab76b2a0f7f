package agent

import (
	"strings"
	"testing"
	"time"

	"stint/cli/slurm/conf"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// What one user may ask for: a bucket that is full at first and fills again, one for each user, and a line of the log now and then.
func TestRequestsOfOneUser(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := newLimiter(Limits{})
	l.now = func() time.Time { return now }
	r := conf.Requests{Bucket: 3, Refill: 2, Period: 10 * time.Second, Log: time.Minute}
	for _, step := range []struct {
		after time.Duration
		uid   uint32
		ok    bool
		log   bool
	}{
		{0, 1, true, false}, {0, 1, true, false}, {0, 1, true, false},
		{0, 1, false, true},               // the bucket is empty
		{time.Second, 1, false, false},    // the log has its line
		{0, 2, true, false},               // another user's is full
		{4 * time.Second, 1, true, false}, // one has come back in five seconds
		{0, 1, false, false},
		{time.Minute, 1, true, false}, {0, 1, true, false}, {0, 1, true, false}, // no more than it holds
		{0, 1, false, true},
	} {
		now = now.Add(step.after)
		if ok, log := l.request(step.uid, r); ok != step.ok || log != step.log {
			t.Errorf("user %d at %s: allowed %t, logged %t; want %t, %t", step.uid, now.Sub(time.Unix(1_000_000, 0)), ok, log, step.ok, step.log)
		}
	}
	r.Log = -1
	now = now.Add(time.Hour)
	for range 5 {
		if _, log := l.request(3, r); log {
			t.Error("the log has a line that the site does not want")
		}
	}
}

// Questions take a token; what submits and changes only where the site limits requests, and who says hello never.
func TestWhatTakesAToken(t *testing.T) {
	for name, c := range map[string]struct {
		req           *wire.Request
		always, sites bool
	}{
		"question": {&wire.Request{What: &wire.Request_Ask{Ask: &projections.Ask{}}}, true, true},
		"submit":   {&wire.Request{What: &wire.Request_Submit{Submit: &wire.Submit{}}}, false, true},
		"control":  {&wire.Request{What: &wire.Request_Control{Control: &wire.Control{Verb: events.Verb_CANCEL}}}, false, true},
		"hello":    {&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}}, false, false},
	} {
		if got := takesToken(c.req, false); got != c.always {
			t.Errorf("%s: %t, want %t", name, got, c.always)
		}
		if got := takesToken(c.req, true); got != c.sites {
			t.Errorf("%s under rl_enable: %t, want %t", name, got, c.sites)
		}
	}
}

// Connections are limited for each user and for all together, and who is turned away is told by which of the two.
func TestConnections(t *testing.T) {
	l := newLimiter(Limits{Connections: 2, Everybody: 3})
	var releases []func()
	for n, c := range []struct {
		uid  uint32
		want string
	}{{1, ""}, {1, ""}, {1, "you have 2 connections to the agent open"}, {2, ""}, {2, "3 connections to the agent are open, which is the most it has files for"}} {
		release, no := l.connect(c.uid)
		if (no == "") != (c.want == "") || !strings.Contains(no, c.want) {
			t.Errorf("connection %d is told %q, want %q", n, no, c.want)
		}
		if release != nil {
			releases = append(releases, release)
		}
	}
	for _, release := range releases {
		release()
	}
	if _, no := l.connect(3); no != "" || l.connections != 1 {
		t.Errorf("after all have ended one is told %q, and %d are open", no, l.connections)
	}
}
