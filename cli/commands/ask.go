package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/cli/wire"
	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// input is what the grammar of a command that asks or controls needs.
func (w *World) input(args []string) slurm.Input {
	return slurm.Input{Args: args, Environ: w.Environ, Now: w.Now, Release: w.Release(), User: w.user()}
}

// clock prints times as the user has it.
func (w *World) clock() format.Clock {
	return format.Clock{Now: w.Now, Format: w.Getenv("SLURM_TIME_FORMAT")}
}

// context is what the rows of an answer have in common.
func (w *World) context(cluster string, noConvert bool) format.Context {
	limit := format.DefaultBitstrLen
	if text := w.Getenv("SLURM_BITSTR_LEN"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			limit = n
		}
	}
	return format.Context{
		Clock: w.clock(), Release: w.Release(), Cluster: cluster, BitstrLen: limit, ShortIDs: w.Getenv("SLURM_BITSTR_LEN") == "", NoConvert: noConvert,
	}
}

// connect returns the connection to the agent, made when it is needed first.
func (w *World) connect(command string) (*wire.Conn, error) {
	if w.conn == nil {
		c, err := w.dial(command)
		if err != nil {
			return nil, err
		}
		w.conn = c
	}
	return w.conn, nil
}

// ask puts one question. A connection that was lost since the last one is made again.
func (w *World) ask(command string, q *projections.Ask) (*projections.Answer, error) {
	for again := w.conn != nil; ; again = false {
		c, err := w.connect(command)
		if err != nil {
			return nil, err
		}
		a, err := c.Ask(q)
		var no *wire.Refused
		if err == nil || errors.As(err, &no) || !again {
			w.old(command, a)
			return a, err
		}
		w.conn.Close()
		w.conn = nil
	}
}

// old says, once a run, that an answer is of the past since who gave it lags.
func (w *World) old(command string, a *projections.Answer) {
	if a == nil || a.StaleUs == 0 || w.told.Equal(w.Now) {
		return
	}
	w.told = w.Now
	fmt.Fprintf(w.Stderr, "%s: this is how it was %s ago or earlier: the controller that answered has not read the log to its end (`stint doctor` says more)\n", command, (time.Duration(a.StaleUs) * time.Microsecond).Round(time.Second))
}

// control sends one act.
func (w *World) control(command string, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }) (*wire.Verdict, error) {
	data, err := body.MarshalVT()
	if err != nil {
		return nil, err
	}
	c, err := w.connect(command)
	if err != nil {
		return nil, err
	}
	v, err := c.Control(&wire.Control{Verb: verb, Body: data})
	if err == nil && v.Undecided {
		return nil, errors.New("the request is kept in the log and takes effect as soon as a controller judges it; none does now: `stint doctor` says why")
	}
	return v, err
}

// repeat runs a command again and again for --iterate, with the time before each run.
func (w *World) repeat(seconds int, once func() int) int {
	if seconds == 0 {
		return once()
	}
	for first := true; ; first = false {
		io.WriteString(w.Stdout, format.DateLine(w.Now))
		if code := once(); code != 0 && first {
			return code // later on, whoever answers may come back
		}
		fmt.Fprintln(w.Stdout)
		w.Now = w.Wait(time.Duration(seconds) * time.Second)
	}
}

// account puts one question to the ledger.
func (w *World) account(command string, q *rows.Ask) (*rows.Answer, error) {
	c, err := w.connect(command)
	if err != nil {
		return nil, err
	}
	return c.Account(q)
}

// jobs asks for rows of the queue.
func (w *World) jobs(command string, q *projections.AskJobs) (*projections.Answer, error) {
	q.Shared = true
	a, err := w.ask(command, &projections.Ask{What: &projections.Ask_Jobs{Jobs: q}})
	if jobs := a.GetJobs(); jobs != nil {
		jobs.Unshare()
	}
	return a, err
}

// config asks for the configuration.
func (w *World) config(command string) (*projections.AnswerConfig, error) {
	a, err := w.ask(command, &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	return a.GetConfig(), err
}

// unmet prints why a request was not met and returns the exit code.
func (w *World) unmet(command string, err error) int {
	return w.complain(command, errors.New(why(err)))
}

// other says that a question is for another cluster than the one there is.
func (w *World) other(clusters, own string) error {
	if clusters == "" || clusters == "all" || own == "" {
		return nil
	}
	for _, name := range strings.Split(clusters, ",") {
		if name != own {
			return fmt.Errorf("No cluster '%s' known: this one is %s", name, own)
		}
	}
	return nil
}

// readSmall reads the beginning of a file, at most 64 KiB.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// clusterName is the cluster's, "" if nobody can tell it now.
func (w *World) clusterName(c *wire.Conn) string {
	a, err := c.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return ""
	}
	return a.GetConfig().GetConfig().GetCluster()
}
