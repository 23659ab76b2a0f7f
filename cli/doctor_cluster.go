package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/ledger/rows"
	"stint/projections"
)

// probeTime is how long all of the cluster together may take to say whether it is there.
const probeTime = 2 * answerTime

// answerTime is how long one of it may take to answer.
const answerTime = 2 * time.Second

// probe asks the cluster, once for all checks.
type probe struct {
	once sync.Once
	got  answers
}

// answers is what the cluster said; nil is what it did not, and then an error says why not.
type answers struct {
	agentErr  error
	hello     *wire.Welcome
	status    *projections.AnswerStatus
	statusNow time.Time // by the controller's clock
	statusSeq uint64
	statusErr error
	ledger    *rows.Answer
	ledgerErr error
	config    *projections.AnswerConfig
	nodes     *projections.AnswerNodes
	counted   *wire.Counted
	countErr  error
}

// answers asks everybody, the agent first, and no one for longer than answerTime.
func (s *scene) answers() *answers {
	s.probe.once.Do(func() {
		a := &s.probe.got
		conn, err := impatient(s.dir)
		if err != nil {
			a.agentErr = err
			return
		}
		resp, err := conn.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}})
		conn.Close()
		if err != nil {
			a.agentErr = err
			return
		}
		a.hello = resp.GetWelcome()
		var wait sync.WaitGroup
		ask := func(f func(*wire.Conn) error, err *error) {
			wait.Go(func() {
				conn, e := impatient(s.dir)
				if e == nil {
					e = f(conn)
					conn.Close()
				}
				if err != nil {
					*err = e
				}
			})
		}
		ask(func(c *wire.Conn) error {
			got, err := c.Ask(&projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
			if err == nil {
				a.status, a.statusNow, a.statusSeq = got.GetStatus(), time.UnixMicro(got.NowUs), got.Seq
			}
			return err
		}, &a.statusErr)
		ask(func(c *wire.Conn) (err error) {
			got, err := c.Account(&rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}})
			if err == nil {
				a.ledger = got
			}
			return err
		}, &a.ledgerErr)
		ask(func(c *wire.Conn) error {
			got, err := c.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
			a.config = got.GetConfig()
			return err
		}, nil)
		ask(func(c *wire.Conn) error {
			got, err := c.Ask(&projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}})
			a.nodes = got.GetNodes()
			return err
		}, nil)
		ask(func(c *wire.Conn) error {
			got, err := c.Stats(false)
			a.counted = got
			return err
		}, &a.countErr)
		wait.Wait()
	})
	return &s.probe.got
}

// impatient connects to the agent as one who does not wait.
func impatient(dir site.Dir) (*wire.Conn, error) {
	conn, err := wire.Dial(string(dir))
	if err != nil {
		return nil, err
	}
	conn.Patience = answerTime
	return conn, nil
}

// late says whether an answer did not come in time.
func late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// checkCluster asks the agent, the leader and the ledger.
func checkCluster(r *report, s *scene) {
	r.on("asking the agent on %s", filepath.Join(string(s.dir), wire.Socket))
	a := s.answers()
	if a.hello == nil {
		judgeAgent(r, s.dir, a.agentErr)
		return
	}
	r.add(well, "agent", "", "of %s; you are %s there", a.hello.GetHost(), a.hello.GetUser())
	if !a.hello.GetBusUp() {
		r.add(fault, "agent", "if the bus runs, its log says why: "+s.dir.Log("agent"), "the agent has no connection to the bus: nothing is taken and nothing answered")
		return
	}
	judgeController(r, a, s.dir)
	judgeLedger(r, a, s.dir)
}

// judgeAgent says why no agent answered.
func judgeAgent(r *report, dir site.Dir, err error) {
	socket := filepath.Join(string(dir), wire.Socket)
	var no *wire.Refused
	_, lerr := dir.Load()
	switch {
	case errors.As(err, &no):
		r.add(warning, "agent", "", "the agent serves you not: %s", no.Text)
	case late(err):
		r.add(fault, "agent", "see whether its process is stopped; else restart it: what is in the log stays", "no answer in %s: the agent on %s takes a connection and says nothing", answerTime, socket)
	case errors.Is(err, fs.ErrPermission):
		info, serr := os.Stat(socket)
		mode := ""
		if serr == nil {
			mode = fmt.Sprintf(" (mode %04o)", info.Mode().Perm())
		}
		r.add(fault, "agent", "as root: chmod 666 "+socket+", and o+x on the folders above it, where it is to serve everybody", "you may not use %s%s", socket, mode)
	case errors.Is(lerr, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist):
		r.add(note, "cluster", "`stint up` starts one; --dir or STINT_DIR says where another is", "there is no cluster in %s", dir)
	case errors.Is(err, fs.ErrNotExist):
		r.add(fault, "agent", "`stint up`, or its service stint-agent", "no agent was ever started in %s, or its socket was removed: every command here fails", dir)
	default:
		if info, serr := os.Lstat(socket); serr == nil && info.Mode().Type() != os.ModeSocket {
			r.add(fault, "agent", "rm "+socket+", then restart the agent", "%s is no socket", socket)
			return
		}
		r.add(fault, "agent", "`stint up`, or its service stint-agent", "nobody listens on %s: every command here fails", socket)
	}
}

// judgeController says whether somebody decides, and since when.
func judgeController(r *report, a *answers, dir site.Dir) {
	const start = "`stint up`, or its service stint-controller; "
	st := a.status
	if st == nil {
		text := "no answer in " + answerTime.String() + ": no controller answers questions, so nothing is decided"
		if !late(a.statusErr) && a.statusErr != nil {
			text = a.statusErr.Error()
		}
		r.add(fault, "controller", start+logOf(dir, "controller")+" says why one ends, and the processes above whether one is stopped", "%s", text)
		return
	}
	t := st.GetTerm()
	if t.GetController() == "" {
		r.add(fault, "leader", start+logOf(dir, "controller")+" says why none takes the term", "no controller ever led")
		return
	}
	if st.Complaint != "" {
		r.add(fault, "controller", "its log says more: "+logOf(dir, "controller"), "%s: %s", st.Host, st.Complaint)
	}
	ago := a.statusNow.Sub(time.UnixMicro(st.LastCycleUs)).Round(time.Second)
	level, do := well, ""
	text := fmt.Sprintf("%s leads since %s (term at %d); its last decision is %s old; %s in the queue, %s", t.GetController(), time.UnixMicro(t.GetBegunUs()).Format(time.DateTime), t.GetSeq(), ago, count(int(st.JobsPending), "job"), count(int(st.Inbox), "act")+" to judge")
	if st.Host == t.GetController() && !st.Leader {
		level, do = fault, "it takes the term again within seconds, or another does; if not, its log: "+logOf(dir, "controller")
		text = fmt.Sprintf("%s led last, and does not now: nothing is decided", t.GetController())
	}
	r.add(level, "leader", do, "%s", text)
	if st.FeedBacklog > 100_000 {
		r.add(warning, "feed", "see that the bus can write: its log "+logOf(dir, "bus"), "%d job states wait to be published for services", st.FeedBacklog)
	}
	r.add(well, "cluster", "", "%d of %s up, %s running, %d pending", st.NodesUp, count(int(st.Nodes), "node"), count(int(st.JobsRunning), "job"), st.JobsPending)
}

// logOf is the file that a daemon's complaints are in: its own, or that of the `stint up` it is a thread of.
func logOf(dir site.Dir, daemon string) string {
	if _, err := os.Stat(dir.Log(daemon)); err == nil {
		return dir.Log(daemon)
	}
	if _, err := os.Stat(dir.Log("up")); err == nil {
		return dir.Log("up")
	}
	return dir.Log(daemon)
}

// mostBehind is how many messages a ledger may lack before it is worth a word: a moment's worth on a busy day.
const mostBehind = 10_000

func judgeLedger(r *report, a *answers, dir site.Dir) {
	if a.ledger == nil {
		text := "no answer in " + answerTime.String() + ": no ledger answers, so sacct, `stint events` and what accounting shows fail; jobs run"
		if a.ledgerErr != nil && !late(a.ledgerErr) {
			text = a.ledgerErr.Error()
		}
		r.add(fault, "ledger", "`stint up`, or its service stint-ledger; "+logOf(dir, "ledger")+" says why it ends", "%s", text)
		return
	}
	st := a.ledger.GetStatus()
	behind := uint64(0)
	if a.statusSeq > st.GetSeq() {
		behind = a.statusSeq - st.GetSeq()
	}
	switch {
	case st.GetError() != "":
		do := "mend that; it goes on by itself"
		if strings.Contains(st.GetError(), "damaged") || strings.Contains(st.GetError(), "corrupt") {
			do = "stop it, move " + dir.Ledger() + " away and start it: it makes its tables anew from the log"
		}
		r.add(fault, "ledger", do, "it stands still at %d, %d behind: %s", st.GetSeq(), behind, st.GetError())
	case behind > mostBehind:
		r.add(warning, "ledger", "it catches up by itself; if it does not, look at its disk", "it is %d behind (at %d): sacct shows what was", behind, st.GetSeq())
	default:
		r.add(well, "ledger", "", "at %d, %d behind, %d records", st.GetSeq(), behind, st.GetRecords())
	}
}

// checkVersions looks for processes that run another version than this program.
func checkVersions(r *report, s *scene) {
	if p, err := s.dir.LoadProcesses(); err == nil && p != nil && p.Version != Build() {
		r.add(warning, "versions", "`stint down --keep`, then `stint up`: jobs go on meanwhile", "the cluster runs version %s, this program is %s", p.Version, Build())
		return
	}
	if v := s.answers().hello.GetVersion(); v != "" && v != Build() {
		r.add(warning, "versions", "restart the agent from this installation, or use the one it is of", "the agent runs version %s, this program is %s", v, Build())
	}
}

// checkFollowers asks the leader who follows the log, and how far behind.
func checkFollowers(r *report, s *scene) {
	r.on("asking the leader who follows the log")
	a := s.answers()
	if a.status == nil {
		return
	}
	if a.counted == nil {
		if a.countErr != nil {
			r.add(fault, "leader", "the processes above say whether it is stopped; its lease ends after seconds, and another controller takes the term", "the leader %s does not say how it is: %v", a.status.GetTerm().GetController(), a.countErr)
		}
		return
	}
	judgeFollowers(r, a.counted.GetAnswer().GetStats())
}

// mostLag is for how long a follower may lack a message before it is worth a word: executors ask every few seconds.
const mostLag = 15 * time.Second

func judgeFollowers(r *report, st *projections.AnswerStats) {
	if st.GetLogSeq() == 0 {
		r.add(fault, "followers", "see that the bus can answer", "the leader could not learn from the bus where the log ends")
	} else if lacks := int64(st.GetLogSeq()) - int64(st.GetSeq()); lacks > mostBehind {
		r.add(warning, "followers", "it catches up by itself", "the leader %s is %d messages behind the log", st.GetLeader(), lacks)
	}
	heard := map[string]int{}
	fine := true
	for _, f := range st.GetFollowers() {
		n := max(int(f.GetCount()), 1)
		silent := time.Duration(f.GetSilentUs()) * time.Microsecond
		lag := time.Duration(f.GetBehindUs()) * time.Microsecond
		switch {
		case silent > 3*mostLag && f.GetKind() != "executor":
			r.add(note, "followers", "", "the %s %s was last heard %s ago: it has ended, or is cut off", f.GetKind(), f.GetName(), silent.Round(time.Second))
			continue
		case lag > mostLag:
			r.add(warning, "followers", "it catches up by itself; if it does not, look at its host", "the %s %s is %d messages behind the log, for %s", f.GetKind(), f.GetName(), f.GetBehind(), lag.Round(time.Second))
			fine = false
		}
		heard[f.GetKind()] += n
	}
	if fine {
		var parts []string
		for _, kind := range []string{"controller", "ledger", "agent", "executor"} {
			parts = append(parts, count(heard[kind], kind))
		}
		r.add(well, "followers", "", "%s heard, none behind; the log goes to %d", strings.Join(parts, ", "), st.GetLogSeq())
	}
}

// checkVoids tells what of the log had no effect.
func checkVoids(r *report, s *scene) {
	st := s.answers().status
	if st == nil {
		return
	}
	judgeVoids(r, st.Voids, s.answers().statusSeq)
}

// voidsLately is how many messages back a void entry counts as of now.
const voidsLately = 1000

func judgeVoids(r *report, voids []*projections.VoidCount, seq uint64) {
	for _, v := range voids {
		when := fmt.Sprintf("the last at %d of %d", v.LastSeq, seq)
		if seq-min(v.LastSeq, seq) < voidsLately {
			when += ", lately"
		}
		r.add(note, "voids", fmt.Sprintf("stint events --void --after %d", v.LastSeq-min(v.LastSeq, 1)), "%d of the log had no effect: %s (%s)", v.Count, v.Why, when)
	}
	if len(voids) == 0 {
		r.add(well, "voids", "", "everything in the log had its effect")
	}
}
