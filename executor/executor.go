package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"stint/events"
	"stint/events/bus"
	"stint/executor/machine"
	"stint/executor/supervisor"
	"stint/projections"
)

// Config says which node an executor serves, and with what. Node, Bus and StateDir must be set.
type Config struct {
	Node             string
	Bus              bus.Bus
	StateDir         string // the node's; its supervisor keeps its own things there too
	Virtual          bool   // the node shares its machine with others, and need not have what it says
	SupervisorSocket string // empty: where a supervisor of StateDir listens
	Version          string // told to the cluster; a supervisor of another version becomes this program, in place
	SlurmConf        string // path of slurm.conf, told to jobs; empty: there is none
	GPUHelper        string // program that asks NVML for GPUs; empty: none
	Log              *slog.Logger

	Beat time.Duration // between signs of life, at each of which it asks; 0: 5 s
}

// executor is what a running one holds.
type executor struct {
	conf   Config
	log    *slog.Logger
	boot   string
	start  time.Time
	blobs  *blobs
	report *report
	samples
	stepping
	wake  chan struct{} // there is a reason to ask
	slots chan struct{} // launches under way

	mu             sync.Mutex
	least          uint64    // an answer must know this sequence
	seen           uint64    // sequence of the last answer
	heard          time.Time // when that came
	config         *events.Config
	configSeq      uint64
	hardware       *hardware
	hardFor        *events.NodeDef // what hardware was found for
	changed        bool            // the hardware, since the node came up
	client         *supervisor.Client
	steps          map[key]*step
	unacknowledged int  // ends of numbered steps that the log has taken in, all told
	upgraded       bool // the supervisor has been told to become this version
}

// launchesAtOnce bounds how many launches are prepared and under way.
const launchesAtOnce = 16

// Run serves the node until ctx is done (its error), or another executor has come up for the node (an error that says so).
func Run(ctx context.Context, conf Config) error {
	e, err := newExecutor(conf)
	if err != nil {
		return fmt.Errorf("executor of node %s: %w", conf.Node, err)
	}
	err = e.run(ctx)
	e.tidy()
	if err != nil {
		return fmt.Errorf("executor of node %s: %w", conf.Node, err)
	}
	return nil
}

func newExecutor(conf Config) (*executor, error) {
	if conf.Node == "" || conf.Bus == nil || conf.StateDir == "" {
		return nil, errors.New("a node name, a bus and a state directory are needed")
	}
	if conf.SupervisorSocket == "" {
		conf.SupervisorSocket = supervisor.SocketPath(conf.StateDir)
	}
	if conf.Beat == 0 {
		conf.Beat = 5 * time.Second
	}
	if conf.Log == nil {
		conf.Log = slog.Default()
	}
	boot, err := supervisor.BootID()
	if err != nil {
		return nil, err
	}
	if conf.Virtual {
		boot += "/" + conf.Node
	}
	if err := os.MkdirAll(conf.StateDir, 0o711); err != nil {
		return nil, err
	}
	e := &executor{heard: time.Now(), conf: conf, log: conf.Log, boot: boot, start: time.Now(), blobs: &blobs{bus: conf.Bus.Blobs()},
		wake: make(chan struct{}, 1), slots: make(chan struct{}, launchesAtOnce), steps: map[key]*step{}}
	e.samples.init()
	e.stepping.init()
	e.report = newReport(conf.Bus.Events(), conf.Node, boot, e.log)
	return e, nil
}

// tidy takes the simulated GPUs of a virtual node away, unless steps run there. They are made again when it comes up.
func (e *executor) tidy() {
	if e.hardware == nil || !e.hardware.virtual || len(e.hardware.gpus) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if c, err := supervisor.Dial(ctx, e.conf.SupervisorSocket); err == nil {
		defer c.Close()
		if l, err := c.List(ctx); err != nil || len(l.GetRunning())+len(l.GetLaunching()) > 0 {
			return
		}
	}
	if err := RemoveDevices(e.conf.StateDir); err != nil {
		e.log.Warn("the simulated GPUs stay", "error", err)
	}
}

func (e *executor) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	work := func(f func(context.Context) error) {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		}()
	}
	stop, err := e.conf.Bus.Wire().Listen(events.SubjectRun(e.conf.Node), "", e.nudged)
	if err != nil {
		return fmt.Errorf("listening for nudges: %w", err)
	}
	defer stop()
	stopSteps, err := e.conf.Bus.Wire().Answer(events.SubjectSteps(e.conf.Node), "", e.answerStep)
	if err != nil {
		return fmt.Errorf("listening for questions about steps: %w", err)
	}
	defer stopSteps()
	defer e.conf.Bus.OnStatus(func(s bus.Status) {
		if s.State == bus.Up {
			e.poke()
		}
	})()
	work(e.beat)
	work(e.followSupervisor)
	work(e.report.run)
	work(e.publishSamples)
	work(e.askAgain)
	<-ctx.Done()
	return context.Cause(ctx)
}

// poke makes the executor ask.
func (e *executor) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// nudged hears that something about the node has changed, as of a sequence.
func (e *executor) nudged(n bus.Nudge) {
	if len(n.Data) == 8 {
		e.atLeast(binary.BigEndian.Uint64(n.Data))
	}
	e.poke()
}

// atLeast makes answers that do not know a sequence too old.
func (e *executor) atLeast(seq uint64) {
	e.mu.Lock()
	e.least = max(e.least, seq)
	e.mu.Unlock()
}

// moment is what a beat says of the machine; nothing where it cannot be read.
func (e *executor) moment() []byte {
	load, free, err := machine.Now("/")
	if err != nil {
		e.log.Debug("reading the machine's load", "error", err)
		return nil
	}
	e.mu.Lock()
	seen := e.seen
	e.mu.Unlock()
	data, _ := (&events.Beat{LoadHundredths: load, FreeMemoryMib: free, Known: true, AtUs: time.Now().UnixMicro(), Seq: seen}).MarshalVT() // cannot fail
	return data
}

// beat gives signs of life, whether or not questions are answered, and watches for the time when none has been for too long.
func (e *executor) beat(ctx context.Context) error {
	t := time.NewTicker(e.conf.Beat)
	defer t.Stop()
	for {
		if err := e.conf.Bus.Wire().Nudge(events.SubjectBeat(e.conf.Node), e.moment()); err != nil {
			e.log.Debug("a beat was not sent", "error", err)
		}
		e.poke()
		e.fence(ctx, time.Now())
		e.checkSteps(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

const (
	askPatience = 10 * time.Second
	askPause    = 100 * time.Millisecond // after a question without answer, doubled up to a beat
)

// askAgain asks whenever there is a reason to, and makes the answer come true.
func (e *executor) askAgain(ctx context.Context) error {
	pause := askPause
	silent := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		}
		a, err := e.ask(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !silent {
				e.log.Warn("nobody says what should run here; what runs goes on", "error", err)
			}
			silent = true
			time.AfterFunc(pause, e.poke)
			pause = min(2*pause, e.conf.Beat)
			continue
		}
		if silent {
			e.log.Info("what should run here is known again")
		}
		silent, pause = false, askPause
		e.mu.Lock()
		e.heard = time.Now()
		e.mu.Unlock()
		e.reconcile(ctx, a.seq, a.answer)
	}
}

type answered struct {
	seq    uint64
	answer *projections.AnswerNode
}

// ask asks what should run on the node.
func (e *executor) ask(ctx context.Context) (answered, error) {
	e.mu.Lock()
	q := &projections.Ask{LeastSeq: max(e.least, e.seen), What: &projections.Ask_Node{Node: &projections.AskNode{Name: e.conf.Node, ConfigSeq: e.configSeq}}}
	e.mu.Unlock()
	data, err := q.MarshalVT()
	if err != nil {
		return answered{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	b, err := e.conf.Bus.Wire().Ask(ctx, events.SubjectAskNode(e.conf.Node), data)
	if err != nil {
		return answered{}, err
	}
	a := &projections.Answer{}
	if err := a.UnmarshalVT(b); err != nil {
		return answered{}, fmt.Errorf("the answer cannot be read: %w", err)
	}
	switch {
	case a.GetError() != "":
		return answered{}, errors.New(a.GetError())
	case a.GetNode() == nil:
		return answered{}, errors.New("the answer is to another question")
	case a.GetSeq() < q.GetLeastSeq():
		return answered{}, fmt.Errorf("the answer is of %d, older than the %d that is known", a.GetSeq(), q.GetLeastSeq())
	}
	return answered{a.GetSeq(), a.GetNode()}, nil
}
