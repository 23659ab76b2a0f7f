package wire

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// How long nothing is said about an answer that is slow to come, and how often it is said after that.
const (
	slowAfter = 3 * time.Second
	slowEvery = 30 * time.Second
)

// How long an answer may take before it is given up, beyond the time that the request itself asks to wait: an agent that
// still runs has answered long before, if only that it does not know.
const (
	questionMost = 30 * time.Second
	stepMost     = time.Minute // the agent gives the making of a step 40 s
	actMost      = 10 * time.Minute
	heldMost     = time.Minute // for who is told to wait, since they ask too much
)

// watch is one request under way. It tells people why there is no answer yet: silence looks like a hang.
type watch struct {
	what requestKind
	most time.Duration
	say  func(string)
	// impatient: most is what who asks allows, not what an agent may need.
	impatient bool

	mu    sync.Mutex
	timer *time.Timer
	begun time.Time
	held  string // why the agent makes it wait
	noted string // what the agent says of it
	told  bool
	kept  bool
	over  bool
}

// requestKind is what people are told about a request that is slow.
type requestKind struct {
	way  string // it is on its way and waits for …
	kept string // of what the log has: it waits to be judged
	lost string // it was given up
}

var (
	submission = requestKind{
		way:  "the submission is on its way and waits for the cluster's log to take it; wait, or press Ctrl-C and look with squeue whether it was taken",
		kept: "the submission is in the log and waits for a controller to judge it; wait, or press Ctrl-C: it is judged all the same, and squeue shows it then",
		lost: "the agent has not answered; whether the submission was taken is not known: look with squeue before you submit again",
	}
	act = requestKind{
		way:  "the request is on its way and waits for the cluster's log to take it; wait, or press Ctrl-C and look later whether it took effect",
		kept: "the request is in the log and waits for a controller to judge it; wait, or press Ctrl-C: it is judged all the same",
		lost: "the agent has not answered; whether the request was taken is not known: look whether it took effect before you try again",
	}
	question = requestKind{
		way:  "there is no answer yet; wait, or press Ctrl-C: `stint doctor` says who does not answer",
		lost: "the agent has not answered, so it may be stopped; `stint doctor` says what to do",
	}
)

func (c *Conn) watch(req *Request) *watch {
	w := &watch{what: question, most: questionMost, say: c.Note, begun: time.Now()}
	own := time.Duration(0) // what the request itself asks to wait
	ms := func(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }
	switch r := req.GetWhat().(type) {
	case *Request_Submit:
		w.what, w.most, own = submission, actMost, ms(r.Submit.GetWaitMs())
	case *Request_Control:
		w.what, w.most, own = act, actMost, ms(r.Control.GetWaitMs())
	case *Request_Ask:
		own = ms(max(r.Ask.GetWait().GetWaitMs(), r.Ask.GetVerdicts().GetWaitMs()))
	case *Request_Account:
		own = ms(r.Account.GetStory().GetWaitMs())
	case *Request_Step:
		w.most, own = stepMost, ms(r.Step.GetCreate().GetWaitMs())
	}
	if c.Patience > 0 {
		w.most, w.impatient = c.Patience, true
	}
	w.most += own
	w.timer = time.AfterFunc(own+slowAfter, w.tell)
	return w
}

// tell says that there is no answer yet.
func (w *watch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	text := w.what.way
	if w.kept {
		text = w.what.kept
	}
	if w.noted != "" {
		text = w.noted
	}
	if w.held != "" {
		text = w.held + "; waiting, and asking again"
	}
	if w.told {
		text = fmt.Sprintf("%s (after %s)", text, time.Since(w.begun).Round(time.Second))
	}
	w.told = true
	w.say(text)
	w.timer.Reset(slowEvery)
}

// keep notes that the log has the request. Who was told that it has not is told at once.
func (w *watch) keep() {
	w.mu.Lock()
	again := w.told && !w.kept && w.noted == ""
	w.kept = true
	w.mu.Unlock()
	if again {
		w.tell()
	}
}

// hold notes that the agent had no room for the request, and why. It is told when it lasts.
func (w *watch) hold(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = why
}

// note passes on what the agent says of why there is no answer, which is more than is known here.
func (w *watch) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(text)
	w.noted, w.told = text, true
	w.timer.Reset(slowEvery)
}

// heldMost is how long to go on asking while the agent has no room.
func (w *watch) heldMost() time.Duration {
	if w.impatient {
		return w.most
	}
	return max(w.most, heldMost)
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

// explain gives an answer that never came the sentence that belongs to its request.
func (w *watch) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return overdue(fmt.Sprintf("%s (waited %s)", w.what.lost, w.most))
	}
	return err
}

// overdue is the sentence for an answer that did not come in time. It is os.ErrDeadlineExceeded to those who ask.
type overdue string

func (o overdue) Error() string     { return string(o) }
func (o overdue) Is(err error) bool { return err == os.ErrDeadlineExceeded }
