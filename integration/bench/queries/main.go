// Command queries measures what questions cost those who decide. On a cluster that runs on this host it gives each of some users jobs that
// wait, then lets as many connections to the agent ask for one user's jobs each, so many a second all together, and submits jobs meanwhile. It
// prints how long the leader took from the message that holds a submission to the message that decides on it (the server's stamps of
// both, as they are in the log), without the questions and with them, in turns.
//
//	stint up --dir D --nodes 'n[1-4]' --cpus 8 --memory 16000 --detach
//	go run ./integration/bench/queries -dir D
//
// It has to be root, to submit as others, and is for a cluster made for it: the jobs it submits are held and stay.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
	"stint/projections"
)

var (
	dir     = flag.String("dir", "", "the `FOLDER` of the cluster")
	rate    = flag.Int("rate", 1000, "questions a second of all connections together, a `NUMBER`")
	conns   = flag.Int("connections", 8, "how many connections ask, each for a user of its own: a `NUMBER`")
	jobs    = flag.Int("jobs", 100, "jobs of each user, a `NUMBER`")
	others  = flag.Int("others", 0, "jobs of somebody else, for whom nobody asks: a `NUMBER`")
	pace    = flag.Int("pace", 20, "submissions a second, a `NUMBER`")
	seconds = flag.Int("seconds", 15, "how long a turn is, a `NUMBER`")
	turns   = flag.Int("turns", 2, "how often it is measured without and with questions, a `NUMBER`")
)

// firstUser is the number of the first user of those that the jobs belong to; it need not have a name.
const firstUser = 60001

func main() {
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "queries: give the folder of a cluster that runs with -dir")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "queries:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context) error {
	for i := range *conns {
		if err := fill(firstUser+i, *jobs); err != nil {
			return fmt.Errorf("giving user %d jobs: %w", firstUser+i, err)
		}
	}
	if err := fill(firstUser-1, *others); err != nil {
		return fmt.Errorf("giving user %d jobs: %w", firstUser-1, err)
	}
	log, end, err := open(ctx)
	if err != nil {
		return err
	}
	defer end()
	var alone, asked, questions []time.Duration
	var idle, busy time.Duration
	for range *turns {
		begin := spent()
		seqs, err := submissions(ctx)
		if err != nil {
			return err
		}
		if alone, err = decided(ctx, log, seqs, alone); err != nil {
			return err
		}
		idle += spent() - begin
		begin = spent()
		askCtx, stop := context.WithCancel(ctx)
		answered := make(chan []time.Duration)
		failed := make(chan error, *conns)
		go func() { answered <- ask(askCtx, failed) }()
		seqs, err = submissions(ctx)
		stop()
		busy += spent() - begin
		questions = append(questions, <-answered...)
		select {
		case err = <-failed:
		default:
		}
		if err != nil {
			return err
		}
		if asked, err = decided(ctx, log, seqs, asked); err != nil {
			return err
		}
	}
	fmt.Printf("%d connections, each for the %d jobs of its user; %d jobs of others wait\n", *conns, *jobs, *others)
	fmt.Printf("questions, from asking to the answer read:     %s, %.0f/s\n", spread(questions), float64(len(questions))/float64(*turns**seconds))
	fmt.Printf("CPU of the daemons for a question:             %.3f ms\n", (busy-idle).Seconds()*1000/float64(max(1, len(questions))))
	fmt.Printf("intent to decision without questions:          %s\n", spread(alone))
	fmt.Printf("intent to decision with questions:             %s\n", spread(asked))
	fmt.Printf("p99 with questions, divided by that without:   %.2f\n", float64(at(asked, 99))/float64(max(1, at(alone, 99))))
	return nil
}

// at is a percentile of what was measured, which is in order.
func at(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, len(list)*percent/100)]
}

func spread(list []time.Duration) string {
	slices.Sort(list)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms of %d", ms(at(list, 50)), ms(at(list, 99)), len(list))
}

func job() *wire.Job {
	return &wire.Job{Components: []*wire.Component{{
		Spec:   &events.JobSpec{Name: "asked", WorkDir: "/", StdOut: "/dev/null", Tasks: 1, MinNodes: 1, TimeLimitS: 60, Hold: true, Command: "/job.sh", SubmitLine: "sbatch job.sh"},
		Script: []byte("#!/bin/sh\n"),
	}}}
}

func jobsOf(uid int) *projections.Ask {
	return &projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{Users: []string{strconv.Itoa(uid)}, Slim: true, Shared: true}}}
}

// fill gives a user jobs that wait, as many as there are too few.
func fill(uid, n int) error {
	c, err := wire.Dial(*dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if n == 0 {
		return nil
	}
	a, err := c.Ask(jobsOf(uid))
	if err != nil {
		return err
	}
	n -= len(a.GetJobs().GetJobs())
	for n > 0 {
		part := min(n, 1000)
		s := &wire.Submit{AsUser: strconv.Itoa(uid), WaitMs: 60_000}
		for range part {
			s.Jobs = append(s.Jobs, job())
		}
		verdicts, err := c.Submit(s)
		if err != nil {
			return err
		}
		if v := verdicts[0]; v.Code != events.Code_OK || v.Undecided {
			return fmt.Errorf("a job was not taken: %s", v.Text)
		}
		n -= part
	}
	return nil
}

// submissions submits jobs at the pace for a turn, and returns the messages that hold them.
func submissions(ctx context.Context) (seqs []uint64, err error) {
	c, err := wire.Dial(*dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for next, end := time.Now(), time.Now().Add(time.Duration(*seconds)*time.Second); next.Before(end) && ctx.Err() == nil; next = next.Add(time.Second / time.Duration(*pace)) {
		time.Sleep(time.Until(next))
		verdicts, err := c.Submit(&wire.Submit{AsUser: strconv.Itoa(firstUser - 1), Jobs: []*wire.Job{job()}})
		if err != nil {
			return nil, fmt.Errorf("submitting: %w", err)
		}
		seqs = append(seqs, verdicts[0].Seq)
	}
	return seqs, ctx.Err()
}

// ask puts questions, those of each connection at their times, until ctx ends. One that comes late because the one before took long counts
// from when it should have been put.
func ask(ctx context.Context, failed chan<- error) (all []time.Duration) {
	var mu sync.Mutex
	var group sync.WaitGroup
	step := time.Second * time.Duration(*conns) / time.Duration(*rate)
	for i := range *conns {
		group.Go(func() {
			c, err := wire.Dial(*dir)
			if err != nil {
				failed <- err
				return
			}
			defer c.Close()
			q := jobsOf(firstUser + i)
			var mine []time.Duration
			for next := time.Now().Add(step * time.Duration(i) / time.Duration(*conns)); ctx.Err() == nil; next = next.Add(step) {
				time.Sleep(time.Until(next))
				a, err := c.Ask(q)
				if err == nil && len(a.GetJobs().GetJobs()) != *jobs {
					err = fmt.Errorf("user %d has %d jobs, not %d", firstUser+i, len(a.GetJobs().GetJobs()), *jobs)
				}
				if err != nil {
					failed <- err
					return
				}
				mine = append(mine, time.Since(next))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	group.Wait()
	return all
}

// open connects to the log of the cluster.
func open(ctx context.Context) (bus.Log, func() error, error) {
	d := site.Dir(*dir)
	cluster, err := d.Load()
	if err != nil {
		return nil, nil, err
	}
	keys, err := server.OpenKeys(d.Keys())
	if err != nil {
		return nil, nil, err
	}
	role := bus.Role{Kind: bus.Admin}
	seed, err := keys.Seed(role)
	if err != nil {
		return nil, nil, err
	}
	b, err := jet.Connect(ctx, jet.Options{URL: cluster.URL, Role: role, Seed: seed})
	if err != nil {
		return nil, nil, err
	}
	return b.Events(), b.Close, nil
}

// spent is the CPU time that the daemons of the cluster have used, those of its nodes apart.
func spent() (sum time.Duration) {
	p, err := site.Dir(*dir).LoadProcesses()
	if err != nil {
		return 0
	}
	pids := []int{p.Pid}
	for name, pid := range p.Children {
		if !strings.Contains(name, ":") {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(f) < 13 {
			continue
		}
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		sum += time.Duration(user+system) * 10 * time.Millisecond
	}
	return sum
}

var errFound = errors.New("all were found")

// decided adds how long each submission waited for its decision.
func decided(ctx context.Context, log bus.Log, seqs []uint64, list []time.Duration) ([]time.Duration, error) {
	if len(seqs) == 0 {
		return list, errors.New("nothing was submitted")
	}
	open := map[uint64]time.Time{}
	for _, seq := range seqs {
		m, err := log.Get(ctx, seq)
		if err != nil {
			return list, fmt.Errorf("reading message %d: %w", seq, err)
		}
		open[seq] = m.Time
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := log.FollowSubject(ctx, events.SubjectSched, seqs[0], func(b bus.Batch) error {
		for _, m := range b.Messages {
			e := events.Decode(m.Seq, m.Time.UnixMicro(), m.Subject, m.Data)
			for _, f := range e.Sched.GetCycle().GetFacts() {
				ref := f.GetAdmitted().GetIntent()
				if j := f.GetJudged(); j != nil {
					ref = j.GetIntent()
				}
				if begun, ok := open[ref.GetSeq()]; ok {
					list = append(list, m.Time.Sub(begun))
					delete(open, ref.GetSeq())
				}
			}
		}
		if len(open) == 0 {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return list, err
}
