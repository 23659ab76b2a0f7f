package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/events"
	"stint/executor"
	"stint/executor/supervisor"
	"stint/projections"
)

func downCommand() *cli.Command {
	return &cli.Command{
		Name: "down", Usage: "stop the cluster on this machine", Category: running,
		Description: "It refuses while jobs run, unless told what is to become of them.\n\nExamples: stint down\n          stint down --kill\n          stint down --keep    # jobs go on; the next `stint up` finds them",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "kill", Usage: "cancel the jobs that run, and wait for their end"},
			&cli.BoolFlag{Name: "keep", Usage: "let the jobs that run go on under their supervisors"},
		},
		Action: down,
	}
}

func down(c *cli.Context) error {
	dir, err := ownHomeOf(c)
	if err != nil {
		return err
	}
	kill, keep := c.Bool("kill"), c.Bool("keep")
	if kill && keep {
		return errors.New("--kill and --keep contradict each other; give one")
	}
	p, err := dir.LoadProcesses()
	if err != nil {
		return err
	}
	cluster, err := dir.Load()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if p == nil {
		before, left := 0, 0
		if cluster != nil {
			before = supervisors(dir, cluster)
			left = stopSupervisors(dir, cluster, kill)
		}
		if left > 0 {
			text := fmt.Sprintf("no cluster runs from %s, but jobs of an earlier one go on under %s", dir, count(left, "supervisor"))
			switch {
			case keep:
				fmt.Fprintf(c.App.Writer, "N%s; the next `stint up` finds them.\n", text[1:])
				return nil
			case kill:
				return fmt.Errorf("%s and could not be ended: the logs are in %s", text, dir.Logs())
			}
			return fmt.Errorf("%s: `stint down --kill` ends them, `stint up` takes them up again", text)
		}
		if kill && before > 0 {
			fmt.Fprintf(c.App.Writer, "No cluster ran from %s; what an earlier one had left under %s was ended.\n", dir, count(before, "supervisor"))
			return nil
		}
		fmt.Fprintf(c.App.Writer, "No cluster runs from %s.\n", dir)
		return nil
	}
	running, err := runningJobs(dir)
	switch {
	case err != nil && !kill && !keep:
		return fmt.Errorf("whether jobs run could not be found out (%w); say --keep to let them go on, or --kill", err)
	case len(running) > 0 && !kill && !keep:
		return fmt.Errorf("%s: say --kill to cancel them, or --keep to let them go on until the next `stint up`", is(len(running), "job runs", "jobs run"))
	case len(running) > 0 && kill:
		fmt.Fprintf(c.App.Writer, "Cancelling %s.\n", count(len(running), "job"))
		if err := cancelAll(c.Context, dir, running); err != nil {
			return err
		}
	}
	if err := syscall.Kill(p.Pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping process %d: %w", p.Pid, err)
	}
	ctx, cancel := context.WithTimeout(c.Context, time.Minute)
	defer cancel()
	err = poll(ctx, func() error {
		lock, err := dir.Lock()
		if err == nil {
			lock.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("process %d was told to stop and has not: %w", p.Pid, err)
	}
	left := stopSupervisors(dir, cluster, kill)
	if left > 0 {
		fmt.Fprintf(c.App.Writer, "The cluster is down. Jobs go on under %s; the next `stint up` finds them.\n", count(left, "supervisor"))
		return nil
	}
	fmt.Fprintln(c.App.Writer, "The cluster is down.")
	return nil
}

// supervisors is how many supervisors of a cluster run.
func supervisors(dir site.Dir, cluster *site.Cluster) (n int) {
	for _, name := range cluster.Nodes {
		if supervisorPid(supervisor.SocketPath(dir.Node(name))) != 0 {
			n++
		}
	}
	return n
}

// stopSupervisors ends the supervisors that have nothing to do, or all of them with their steps, and returns how many
// are left.
func stopSupervisors(dir site.Dir, cluster *site.Cluster, kill bool) (left int) {
	mode := supervisor.StopMode_REFUSE_IF_BUSY
	if kill {
		mode = supervisor.StopMode_KILL_STEPS
	}
	for _, n := range cluster.Nodes {
		socket := supervisor.SocketPath(dir.Node(n))
		if stopSupervisor(socket, mode) != nil && supervisorPid(socket) != 0 {
			left++
			continue
		}
		if err := executor.RemoveDevices(dir.Node(n)); err != nil {
			fmt.Fprintf(os.Stderr, "stint: %v\n", err)
		}
	}
	return left
}

func is(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// runningJobs returns the ids of the jobs that have a run that is not over.
func runningJobs(dir site.Dir) ([]uint32, error) {
	conn, err := dial(dir)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{States: []events.JobState{events.JobState_RUNNING, events.JobState_SUSPENDED}, Slim: true}}})
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, j := range a.GetJobs().GetJobs() {
		ids = append(ids, j.Job.Id)
	}
	return ids, nil
}

// cancelAll cancels jobs and waits for their end.
func cancelAll(ctx context.Context, dir site.Dir, ids []uint32) error {
	conn, err := dial(dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	for len(ids) > 0 {
		part := ids[:min(len(ids), 1000)]
		ids = ids[len(part):]
		cancel := &events.Cancel{}
		for _, id := range part {
			cancel.Targets = append(cancel.Targets, &events.Target{Job: id})
		}
		body, err := cancel.MarshalVT()
		if err != nil {
			return err
		}
		if _, err := conn.Control(&wire.Control{Verb: events.Verb_CANCEL, Body: body}); err != nil {
			return fmt.Errorf("cancelling the jobs: %w", err)
		}
		for ctx.Err() == nil {
			a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Wait{Wait: &projections.AskWait{Ids: part, WaitMs: 10_000}}})
			if err != nil {
				return fmt.Errorf("waiting for the jobs to end: %w", err)
			}
			if !a.GetWait().GetUndecided() {
				break
			}
		}
	}
	return ctx.Err()
}
