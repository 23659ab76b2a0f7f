package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// mailer sends the letters that jobs asked for, through the program of the configuration. A letter about a job's state is
// written by whoever has just put that state into the stream JOBS, which takes each one exactly once and keeps how far it
// is: so of several controllers one writes, what happened while none led is told later, and nothing is told twice. One that
// dies between the two has a letter less to show for it; only a leader that was deposed while its append was under way, at the
// very moment its successor looked how far the stream is, may write one that the successor writes too. Letters about time are the leader's, from the moment it leads.
type mailer struct {
	log   *slog.Logger
	shown func() *shown
	clock func() time.Time

	mu      sync.Mutex
	states  []projections.JobEvent // in the stream, and not looked at yet
	queue   []slurm.Letter
	until   int64           // up to when time limits were looked at, microseconds; 0: not leading
	invalid map[uint32]bool // jobs whose dependency is known to be one that can never hold
	missing bool            // the program was not found, and that was said
	wake    chan struct{}
}

const (
	mailMost  = 10_000           // letters that wait
	mailTime  = time.Minute      // that the program may take
	mailEvery = 15 * time.Second // between looks at how far jobs are in their time limits
)

func newMailer(log *slog.Logger, clock func() time.Time, shown func() *shown) *mailer {
	return &mailer{log: log, clock: clock, shown: shown, wake: make(chan struct{}, 1)}
}

// view is the state as readers see it; nil before there is one.
func (m *mailer) view() *projections.View {
	if s := m.shown(); s != nil {
		return s.view
	}
	return nil
}

// told takes states that are now in the stream of states.
func (m *mailer) told(list []projections.JobEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states = append(m.states, list...)
	m.nudge()
}

// nudge wakes the mailer.
func (m *mailer) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// read writes letters about the states that readers are shown too, and returns what tells when they are shown more if there
// are others.
func (m *mailer) read() <-chan struct{} {
	s := m.shown()
	if s == nil {
		return nil
	}
	m.mu.Lock()
	n := 0
	for n < len(m.states) && m.states[n].Seq <= s.view.Seq() {
		n++
	}
	list := m.states[:n:n]
	m.states = m.states[n:]
	more := len(m.states) > 0
	m.mu.Unlock()
	m.write(s.view, list)
	if more {
		return s.next
	}
	return nil
}

// write queues the letters that states ask for.
func (m *mailer) write(v *projections.View, list []projections.JobEvent) {
	for i := range list {
		subject := list[i].Subject
		id, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 32)
		j := v.Job(uint32(id))
		if err != nil || j.GetSpec().GetMailTypes() == 0 {
			continue // of most jobs: what a state says need not even be read
		}
		var body projections.JobEventBody
		if json.Unmarshal(list[i].Data, &body) != nil {
			continue
		}
		if n := newsOf(v, j, &body); n != nil {
			m.send(n, v)
			if body.State == "TIMEOUT" && j.Spec.MailTypes&slurm.MailTimeLimit != 0 {
				late := *n
				late.Kind, late.Array = slurm.MailTimeLimit, nil
				m.send(&late, v)
			}
		}
	}
}

// newsOf is what a letter about a state would say; nil if none is wanted. Of an array only its beginning and its end are told,
// unless the tasks are wanted one by one.
func newsOf(v projections.Reader, j *projections.Job, body *projections.JobEventBody) *slurm.JobNews {
	kind := slurm.MailKind(body.State, j.Spec.MailTypes)
	if kind == 0 && !(body.State == "TIMEOUT" && j.Spec.MailTypes&slurm.MailTimeLimit != 0) {
		return nil
	}
	if body.State == "RUNNING" && j.Run == body.Run && j.PlacedSeq != body.Seq {
		return nil // it goes on after it was suspended: it began long ago
	}
	n := &slurm.JobNews{Kind: kind, Job: asItWas(j, body)}
	if j.ArrayId == 0 || j.Spec.MailTypes&slurm.MailArrayTasks != 0 {
		return n
	}
	switch n.Array = v.Array(j.ArrayId); {
	case n.Array == nil:
		return nil
	case body.State == "RUNNING":
		if !firstOfArray(v, j, body) {
			return nil
		}
	case body.State == "REQUEUED":
		n.Array = nil // a task of its own came back
	case !lastOfArray(v, n.Array, j):
		return nil
	default:
		n.Least = leastExit(v, n.Array)
		if n.Array.Failed > 0 && j.Spec.MailTypes&slurm.MailFail != 0 {
			n.Kind = slurm.MailFail
		}
	}
	return n
}

// asItWas is the job in the state that the letter is about: it may have gone on since.
func asItWas(j *projections.Job, body *projections.JobEventBody) *projections.Job {
	if j.State.Word() == body.State && j.Run == body.Run {
		return j
	}
	old := j.CloneVT()
	at, err := time.Parse(time.RFC3339Nano, body.Time)
	if err != nil {
		return old
	}
	switch s, ok := events.ParseJobState(body.State); {
	case body.State == "REQUEUED":
		old.State, old.StartUs, old.EndUs = events.JobState_PENDING, old.PlacedUs, at.UnixMicro()
	case ok && s == events.JobState_RUNNING:
		old.State, old.StartUs, old.EndUs = s, at.UnixMicro(), 0
	case ok:
		old.State = s
	}
	return old
}

// firstOfArray says whether no task of the array started before this one.
func firstOfArray(v projections.Reader, j *projections.Job, body *projections.JobEventBody) bool {
	first := body.Run == 1
	v.EachArrayTask(j.ArrayId, func(t *projections.TaskJob) bool {
		if t.Task == j.ArrayTask {
			return true
		}
		other := v.Job(t.Job)
		switch {
		case other == nil || !other.HasTask:
			first = first && !t.Ended // what is gone was there before
		case other.Run == 0:
		case other.Run > 1 || other.PlacedSeq < body.Seq || other.PlacedSeq == body.Seq && other.ArrayTask < j.ArrayTask:
			first = false
		}
		return first
	})
	return first
}

// lastOfArray says whether all tasks are over and none ended after this one.
func lastOfArray(v projections.Reader, a *projections.Array, j *projections.Job) bool {
	if a.Completed+a.Failed < a.Total {
		return false
	}
	last := true
	v.EachArrayTask(j.ArrayId, func(t *projections.TaskJob) bool {
		if other := v.Job(t.Job); other != nil && other.HasTask && other.Id != j.Id {
			if other.EndUs > j.EndUs || other.EndUs == j.EndUs && other.ArrayTask > j.ArrayTask {
				last = false
			}
		}
		return last
	})
	return last
}

func leastExit(v projections.Reader, a *projections.Array) uint32 {
	if a.Completed > 0 {
		return 0
	}
	least := a.MaxExitCode
	v.EachArrayTask(a.Id, func(t *projections.TaskJob) bool {
		if j := v.Job(t.Job); j.GetHasTask() {
			least = min(least, j.ExitCode)
		}
		return true
	})
	return least
}

// send queues a letter.
func (m *mailer) send(n *slurm.JobNews, r projections.Reader) {
	if n.Kind == 0 {
		return
	}
	n.Cluster, n.Domain = r.Config().GetCluster(), r.Config().GetMailDomain()
	l := n.Write(m.clock().UnixMicro())
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= mailMost {
		m.log.Error("a letter is dropped: too many wait for MailProg", "to", l.To, "subject", l.Subject)
		return
	}
	m.queue = append(m.queue, l)
}

// lead says whether this controller looks after time.
func (m *mailer) lead(leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until, m.invalid = 0, nil
	if leads {
		m.until = m.clock().UnixMicro()
	}
}

// look writes letters about jobs that came to a part of their time limit since the last look, and about dependencies that
// turned out never to hold.
func (m *mailer) look() {
	m.mu.Lock()
	from, known := m.until, m.invalid
	m.mu.Unlock()
	v := m.view()
	if from == 0 || v == nil {
		return
	}
	now := m.clock().UnixMicro()
	v.EachRunning(func(j *projections.Job) bool {
		if kind := limitKind(j, from, now); kind != 0 {
			m.send(&slurm.JobNews{Kind: kind, Job: j}, v)
		}
		return true
	})
	invalid := map[uint32]bool{}
	v.EachPending(func(j *projections.Job) bool {
		if j.GetSpec().GetMailTypes()&slurm.MailInvalidDepend != 0 && j.PendingReason(now) == events.Reason_DEPENDENCY_NEVER_SATISFIED {
			invalid[j.Id] = true
			if known != nil && !known[j.Id] {
				m.send(&slurm.JobNews{Kind: slurm.MailInvalidDepend, Job: j}, v)
			}
		}
		return true
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == from { // still leading
		m.until, m.invalid = now, invalid
	}
}

// limitKind is the part of its time limit that a running job came to in (from, now], the latest if there are several.
func limitKind(j *projections.Job, from, now int64) uint32 {
	if j.LimitS == events.Unlimited || j.State != events.JobState_RUNNING || j.Stop != nil {
		return 0
	}
	for _, p := range []struct {
		kind    uint32
		percent int64
	}{{slurm.MailTimeLimit90, 90}, {slurm.MailTimeLimit80, 80}, {slurm.MailTimeLimit50, 50}} {
		at := j.StartUs + j.IdleUs() + int64(j.LimitS)*10_000*p.percent
		if j.GetSpec().GetMailTypes()&p.kind != 0 && at > from && at <= now {
			return p.kind
		}
	}
	return 0
}

// run sends letters until ctx ends.
func (m *mailer) run(ctx context.Context) {
	tick := time.NewTicker(mailEvery)
	defer tick.Stop()
	var later <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look()
		case <-m.wake:
		case <-later:
		}
		later = m.read()
		for ctx.Err() == nil {
			m.mu.Lock()
			if len(m.queue) == 0 {
				m.mu.Unlock()
				break
			}
			l := m.queue[0]
			m.queue = m.queue[1:]
			m.mu.Unlock()
			m.post(ctx, l)
		}
	}
}

// post hands one letter to the program: `-s SUBJECT ADDRESS`, no text, and the job in its environment.
func (m *mailer) post(ctx context.Context, l slurm.Letter) {
	v := m.view()
	if v == nil {
		return
	}
	program := v.Config().GetMailProg()
	if program == "" {
		program = "/bin/mail"
	}
	if err := slurm.CheckMailUser("the letter", l.To); err != nil { // commands refuse it, but who speaks for himself might not
		m.log.Warn("a letter is not sent", "subject", l.Subject, "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-s", l.Subject, l.To)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + os.Getenv("HOME")}, l.Env...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	var said bytes.Buffer
	cmd.Stderr = &limitedWriter{&said, 4096}
	err := cmd.Run()
	switch {
	case err == nil:
		m.missing = false
	case errors.Is(err, fs.ErrNotExist):
		if !m.missing {
			m.log.Error("mail that jobs ask for cannot be sent: there is no such program; set MailProg in slurm.conf", "program", program)
		}
		m.missing = true
	default:
		m.log.Warn("sending a letter", "program", program, "to", l.To, "subject", l.Subject, "error", fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes())))
	}
}

// limitedWriter keeps the first bytes and takes the rest.
type limitedWriter struct {
	to   *bytes.Buffer
	most int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if left := w.most - w.to.Len(); left > 0 {
		w.to.Write(p[:min(left, len(p))])
	}
	return len(p), nil
}
