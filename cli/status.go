package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/ledger/rows"
	"stint/projections"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "say what of the cluster runs here, and how it is", Category: running,
		Description: "It ends with 0 if the cluster decides and all its daemons answer, else with 1.\n\nExample: stint status --json",
		Flags:       []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			s := lookAt(dir)
			if c.Bool("json") {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				if err := e.Encode(s); err != nil {
					return err
				}
			} else {
				fmt.Fprint(c.App.Writer, s.text())
			}
			if !s.Healthy {
				return exitError{code: 1}
			}
			return nil
		},
	}
}

// status is what `stint status` tells.
type status struct {
	Dir       string          `json:"dir"`
	Cluster   string          `json:"cluster,omitempty"`
	Healthy   bool            `json:"healthy"`
	Trouble   []string        `json:"trouble"`
	Processes *site.Processes `json:"processes,omitempty"`
	Agent     *agentStatus    `json:"agent,omitempty"`
	State     *stateStatus    `json:"controller,omitempty"`
	Ledger    *ledgerStatus   `json:"ledger,omitempty"`

	foreign bool // the folder's files are not for whoever asks
}

type agentStatus struct {
	Host    string `json:"host"`
	User    string `json:"user"`
	Version string `json:"version"`
	BusUp   bool   `json:"bus_up"`
}

type stateStatus struct {
	Host      string            `json:"host"`
	Seq       uint64            `json:"seq"`
	Leader    string            `json:"leader"`
	Leads     bool              `json:"leads"`
	Term      uint64            `json:"term_seq"`
	Cycles    uint64            `json:"cycles"`
	Nodes     uint64            `json:"nodes"`
	NodesUp   uint64            `json:"nodes_up"`
	Pending   uint64            `json:"jobs_pending"`
	Running   uint64            `json:"jobs_running"`
	Finished  uint64            `json:"jobs_finished_hot"`
	Inbox     uint64            `json:"inbox"`
	Feed      uint64            `json:"feed_backlog"`
	Voids     map[string]uint64 `json:"voids"`
	Complaint string            `json:"complaint,omitempty"`
}

type ledgerStatus struct {
	Seq     uint64 `json:"seq"`
	Behind  uint64 `json:"behind"`
	Records uint64 `json:"records"`
	Error   string `json:"error,omitempty"`
}

// lookAt asks everybody.
func lookAt(dir site.Dir) *status {
	s := &status{Dir: string(dir), Trouble: []string{}}
	trouble := func(format string, args ...any) { s.Trouble = append(s.Trouble, fmt.Sprintf(format, args...)) }
	c, err := dir.Load()
	switch {
	case err == nil:
		s.Cluster = c.Name
	case errors.Is(err, fs.ErrPermission): // another user's: what there is to know, its agent tells
		s.foreign = true
	case !errors.Is(err, fs.ErrNotExist):
		trouble("%v", err)
	}
	if p, err := dir.LoadProcesses(); err == nil {
		s.Processes = p
	}
	conn, err := dial(dir)
	if err != nil {
		trouble("%v", err)
		return s
	}
	defer conn.Close()
	conn.Patience = 20 * time.Second // longer than an agent waits for the others: without an answer then, it is the agent
	resp, err := conn.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}})
	if err != nil {
		trouble("the agent: %v", err)
		return s
	}
	w := resp.GetWelcome()
	s.Agent = &agentStatus{Host: w.GetHost(), User: w.GetUser(), Version: w.GetVersion(), BusUp: w.GetBusUp()}
	if !s.Agent.BusUp {
		trouble("the agent has no connection to the bus")
		return s
	}
	if s.Cluster == "" {
		if a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
			s.Cluster = a.GetConfig().GetConfig().GetCluster()
		}
	}
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
	if err != nil {
		trouble("the controller: %v", err)
	} else {
		st := a.GetStatus()
		s.State = &stateStatus{
			Host: st.Host, Seq: a.Seq, Leader: st.Term.GetController(), Leads: st.Leader, Term: st.Term.GetSeq(), Cycles: st.Cycles,
			Nodes: st.Nodes, NodesUp: st.NodesUp, Pending: st.JobsPending, Running: st.JobsRunning, Finished: st.FinishedHot,
			Inbox: st.Inbox, Feed: st.FeedBacklog, Complaint: st.Complaint, Voids: map[string]uint64{},
		}
		for _, v := range st.Voids {
			s.State.Voids[v.Why] = v.Count
		}
		if st.Complaint != "" {
			trouble("the controller: %s", st.Complaint)
		}
		if st.NodesUp < st.Nodes {
			trouble("%d of %d nodes do not answer", st.Nodes-st.NodesUp, st.Nodes)
		}
	}
	l, err := conn.Account(&rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}})
	if err != nil {
		trouble("the ledger: %v", err)
	} else {
		s.Ledger = &ledgerStatus{Seq: l.GetStatus().GetSeq(), Records: l.GetStatus().GetRecords(), Error: l.GetStatus().GetError()}
		if s.State != nil && s.State.Seq > s.Ledger.Seq {
			s.Ledger.Behind = s.State.Seq - s.Ledger.Seq
		}
		if s.Ledger.Error != "" {
			trouble("the ledger stands still: %s", s.Ledger.Error)
		}
	}
	s.Healthy = len(s.Trouble) == 0
	return s
}

func (s *status) text() string {
	var b strings.Builder
	switch {
	case s.Cluster == "" && s.foreign:
		fmt.Fprintf(&b, "What is in %s is another user's, and no agent there serves you.\n", s.Dir)
	case s.Cluster == "" && s.Agent == nil:
		fmt.Fprintf(&b, "There is no cluster in %s; `stint up` makes one.\n", s.Dir)
	case s.Cluster == "":
		fmt.Fprintf(&b, "Cluster in %s\n", s.Dir)
	default:
		fmt.Fprintf(&b, "Cluster %s in %s\n", s.Cluster, s.Dir)
	}
	if p := s.Processes; p != nil {
		fmt.Fprintf(&b, "  up          process %d since %s, version %s\n", p.Pid, p.Started, p.Version)
		for _, name := range slices.Sorted(maps.Keys(p.Children)) {
			fmt.Fprintf(&b, "              %s: process %d\n", name, p.Children[name])
		}
	}
	if a := s.Agent; a != nil {
		bus := "up"
		if !a.BusUp {
			bus = "away"
		}
		fmt.Fprintf(&b, "  agent       of %s, version %s; the bus is %s\n", a.Host, a.Version, bus)
	}
	if c := s.State; c != nil {
		fmt.Fprintf(&b, "  controller  %s leads since %d; folded up to %d in %d cycles\n", c.Leader, c.Term, c.Seq, c.Cycles)
		fmt.Fprintf(&b, "  nodes       %d of %d up\n", c.NodesUp, c.Nodes)
		fmt.Fprintf(&b, "  jobs        %d pending, %d running, %d finished lately\n", c.Pending, c.Running, c.Finished)
	}
	if l := s.Ledger; l != nil {
		fmt.Fprintf(&b, "  ledger      at %d, %d behind\n", l.Seq, l.Behind)
	}
	for _, t := range s.Trouble {
		fmt.Fprintf(&b, "  trouble     %s\n", t)
	}
	return b.String()
}
