package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/events"
	"stint/executor/supervisor"
	"stint/projections"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "show the main job: a whole cluster in a temporary folder, real scripts, their output and their story", Category: running,
		Description: "It takes about 75 seconds, since one of its jobs runs into a time limit of a minute, and leaves nothing behind. It ends with 0\nonly if everything came out as it must.\n\nExample: stint demo",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "plain", Usage: "plain lines also on a terminal"}},
		Action: func(c *cli.Context) error {
			d := &demo{out: c.App.Writer, live: colour(os.Stdout) && !c.Bool("plain")}
			return d.run(c.Context)
		},
	}
}

// demoLimit is how long the demo may take, compilation apart.
const demoLimit = 100 * time.Second

// demoJob is a script and what must come of it.
type demoJob struct {
	name    string
	options []string
	script  string
	after   string // the job before it in the pipeline
	tasks   int    // of an array; 0: none

	state  events.JobState
	exit   uint32
	output []string // what its output must hold, each task's for an array
	what   string   // for people

	id   uint32
	seen string
}

var demoJobs = []*demoJob{
	{name: "toolong", options: []string{"-t", "1"}, script: "echo working; sleep 600\n", state: events.JobState_TIMEOUT, output: []string{"working", "CANCELLED AT"},
		what: "runs into its time limit of a minute, while the rest goes on"},
	{name: "cpu", options: []string{"-c", "2"}, script: "echo \"$SLURM_CPUS_ON_NODE CPUs on $SLURMD_NODENAME\"; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo counted to $i\n",
		state: events.JobState_COMPLETED, output: []string{"2 CPUs on n", "counted to 200000"}, what: "computes on two CPUs"},
	{name: "gpu", options: []string{"--gres=gpu:a100:2"}, script: "echo \"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME\"; sleep 2\n",
		state: events.JobState_COMPLETED, output: []string{"CUDA_VISIBLE_DEVICES=0,1 on n"}, what: "gets two GPUs"},
	{name: "array", options: []string{"--array=0-3%2"}, tasks: 4, script: "sleep 1; echo \"task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\"\n",
		state: events.JobState_COMPLETED, output: []string{"task 0 of 4", "task 1 of 4", "task 2 of 4", "task 3 of 4"}, what: "four tasks, two at a time"},
	{name: "prepare", script: "echo 6 7 > numbers; sleep 1; echo prepared\n", state: events.JobState_COMPLETED, output: []string{"prepared"}, what: "the first of a pipeline"},
	{name: "compute", after: "prepare", script: "read a b < numbers; echo $((a*b)) > answer; sleep 1; echo computed\n", state: events.JobState_COMPLETED, output: []string{"computed"},
		what: "waits for it (afterok)"},
	{name: "report", after: "compute", script: "echo the answer is $(cat answer)\n", state: events.JobState_COMPLETED, output: []string{"the answer is 42"}, what: "and the last"},
	{name: "fails", script: "echo trying; exit 3\n", state: events.JobState_FAILED, exit: 3, output: []string{"trying"}, what: "ends with exit code 3"},
}

type demo struct {
	out   io.Writer
	live  bool
	self  string
	base  string // the temporary folder
	dir   site.Dir
	work  string
	env   []string
	begun time.Time
	drawn int // lines drawn last
	wrong []string
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) bad(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

// run is the demo from the first line to the last process.
func (d *demo) run(ctx context.Context) (err error) {
	d.begun = time.Now()
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	if d.self, err = os.Executable(); err != nil {
		return err
	}
	if d.base, err = os.MkdirTemp("", "stint-demo-"); err != nil {
		return err
	}
	if err := os.Chmod(d.base, 0o755); err != nil {
		return err
	}
	d.dir, d.work = site.Dir(filepath.Join(d.base, "cluster")), filepath.Join(d.base, "work")
	defer func() { err = d.finish(err) }()
	if err := os.Mkdir(d.work, 0o755); err != nil {
		return err
	}
	if err := link(filepath.Join(d.base, "bin")); err != nil {
		return err
	}
	d.env = append(os.Environ(), "STINT_DIR="+string(d.dir), "PATH="+filepath.Join(d.base, "bin")+":"+os.Getenv("PATH"))

	d.say("A cluster of two nodes with 4 CPUs and 2 simulated GPUs each, in %s:", d.base)
	d.say("$ stint up --detach --split --nodes 'n[1-2]' --cpus 4 --memory 4000 --gres gpu:a100:2")
	text, err := d.command(ctx, d.self, "up", "--detach", "--split", "--nodes", "n[1-2]", "--cpus", "4", "--memory", "4000", "--gres", "gpu:a100:2")
	if err != nil {
		return err
	}
	d.say("%s", text)
	if err := d.processes(ctx); err != nil {
		return err
	}
	if err := d.submit(ctx); err != nil {
		return err
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	return d.show(ctx)
}

// command runs a program in the work directory and returns what it printed.
func (d *demo) command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = d.work, d.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// slurm runs a command of Slurm's by its own name.
func (d *demo) slurm(ctx context.Context, name string, args ...string) (string, error) {
	return d.command(ctx, filepath.Join(d.base, "bin", name), args...)
}

// processes shows who runs.
func (d *demo) processes(ctx context.Context) error {
	p, err := d.dir.LoadProcesses()
	if err != nil || p == nil {
		return errors.Join(errors.New("the cluster's processes are not known"), err)
	}
	pids := []string{strconv.Itoa(p.Pid)}
	for _, pid := range p.Children {
		pids = append(pids, strconv.Itoa(pid))
	}
	d.say("$ ps")
	for _, pid := range pids {
		data, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil {
			return fmt.Errorf("process %s of the cluster does not run: %w", pid, err)
		}
		args := strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
		words := []string{filepath.Base(args[0])}
		for i := 1; i < len(args); i++ {
			if args[i] == "--dir" {
				i++
				continue
			}
			words = append(words, args[i])
		}
		d.say("%7s %s", pid, strings.Join(words, " "))
	}
	if len(p.Children) < 8 {
		d.bad("only %d daemons run, where bus, controller, agent, ledger and two of each node should", len(p.Children))
	}
	d.say("")
	return nil
}

func (d *demo) submit(ctx context.Context) error {
	ids := map[string]uint32{}
	for _, j := range demoJobs {
		file := j.name + ".sh"
		if err := os.WriteFile(filepath.Join(d.work, file), []byte("#!/bin/sh\n#SBATCH --job-name="+j.name+"\n"+j.script), 0o755); err != nil {
			return err
		}
		args := append([]string{}, j.options...)
		if j.after != "" {
			args = append(args, fmt.Sprintf("--dependency=afterok:%d", ids[j.after]))
		}
		args = append(args, file)
		out, err := d.slurm(ctx, "sbatch", args...)
		if err != nil {
			return err
		}
		d.say("$ sbatch %-34s # %s\n%s", strings.Join(args, " "), j.what, strings.TrimSpace(out))
		if _, err := fmt.Sscanf(out, "Submitted batch job %d", &j.id); err != nil {
			return fmt.Errorf("sbatch printed %q", out)
		}
		ids[j.name] = j.id
	}
	d.say("")
	return nil
}

// watch shows the jobs as they move until all are over.
func (d *demo) watch(ctx context.Context) error {
	conn, err := wire.Dial(string(d.dir))
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{AllStates: true}}})
		if err != nil {
			return err
		}
		over := true
		var lines []string
		for _, j := range demoJobs {
			text, done := describeDemo(j, a.GetJobs().GetJobs())
			over = over && done
			if text != j.seen {
				j.seen = text
				if !d.live {
					d.say("%5.1fs  %-8s %s", time.Since(d.begun).Seconds(), j.name, text)
				}
			}
			if room := d.width() - 12; len(text) > room { // a line that wraps would spoil the drawing
				text = text[:room-3] + "..."
			}
			lines = append(lines, fmt.Sprintf("  %-8s %s", j.name, paint(text)))
		}
		if d.live {
			lines = append(lines, fmt.Sprintf("  %.0f s", time.Since(d.begun).Seconds()))
			if d.drawn > 0 {
				fmt.Fprintf(d.out, "\033[%dA", d.drawn)
			}
			for _, l := range lines {
				fmt.Fprintf(d.out, "\r\033[K%s\n", l)
			}
			d.drawn = len(lines)
		}
		if over {
			d.say("")
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the jobs were not over within %s", demoLimit)
			}
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// width is the terminal's, in columns.
func (d *demo) width() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 40 {
		return w
	}
	return 80
}

// describeDemo says where a job is, and whether it is over.
func describeDemo(j *demoJob, views []*projections.JobView) (text string, over bool) {
	var states []string
	ended := 0
	for _, v := range views {
		job := v.Job
		if job.Id != j.id && job.ArrayId != j.id {
			continue
		}
		s := job.State.Word()
		switch {
		case job.State == events.JobState_PENDING:
			reason := job.Reason
			if reason == events.Reason_NONE {
				reason = v.GetOutcome().GetReason()
			}
			s += " (" + reason.Word() + ")"
		case job.State == events.JobState_RUNNING:
			s += " on " + strings.Join(job.GetAllocation().NodeNames(), ",")
		case job.State.Final():
			s += fmt.Sprintf(" %d:%d", job.ExitCode, job.ExitSignal)
			ended++
		}
		if job.HasTask {
			s = fmt.Sprintf("%d %s", job.ArrayTask, s)
		}
		states = append(states, s)
	}
	return strings.Join(states, ", "), ended == max(j.tasks, 1)
}

// paint colours the words of states.
func paint(text string) string {
	for word, colour := range map[string]string{"COMPLETED": "32", "RUNNING": "36", "PENDING": "33", "FAILED": "31", "TIMEOUT": "35"} {
		text = strings.ReplaceAll(text, word, "\033["+colour+"m"+word+"\033[0m")
	}
	return text
}

// show prints what came of it all and holds it to what had to.
func (d *demo) show(ctx context.Context) error {
	d.say("What they wrote:")
	conn, err := wire.Dial(string(d.dir))
	if err != nil {
		return err
	}
	defer conn.Close()
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Jobs{Jobs: &projections.AskJobs{AllStates: true}}})
	if err != nil {
		return err
	}
	for _, j := range demoJobs {
		pattern := fmt.Sprintf("slurm-%d.out", j.id)
		if j.tasks > 0 {
			pattern = fmt.Sprintf("slurm-%d_*.out", j.id)
		}
		files, _ := filepath.Glob(filepath.Join(d.work, pattern))
		var all strings.Builder
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			all.Write(data)
			d.say("  %-18s %s", filepath.Base(f), strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n"+strings.Repeat(" ", 21)))
		}
		for _, want := range j.output {
			if !strings.Contains(all.String(), want) {
				d.bad("the output of %s does not say %q", j.name, want)
			}
		}
		n := 0
		for _, v := range a.GetJobs().GetJobs() {
			if v.Job.Id != j.id && v.Job.ArrayId != j.id {
				continue
			}
			n++
			if v.Job.State != j.state || v.Job.ExitCode != j.exit {
				d.bad("%s ended %s with %d, and should have ended %s with %d", j.name, v.Job.State.Word(), v.Job.ExitCode, j.state.Word(), j.exit)
			}
		}
		if n != max(j.tasks, 1) {
			d.bad("%s is %d jobs and should be %d", j.name, n, max(j.tasks, 1))
		}
	}
	d.say("\n$ sacct -X --format=JobID,JobName,AllocCPUS,AllocTRES%%34,State,ExitCode,Elapsed,NodeList")
	out, err := d.slurm(ctx, "sacct", "-X", "--format=JobID,JobName,AllocCPUS,AllocTRES%34,State,ExitCode,Elapsed,NodeList%8")
	if err != nil {
		return err
	}
	d.say("%s", out)
	rows, err := d.slurm(ctx, "sacct", "-X", "-n", "-P", "--format=JobIDRaw,State")
	if err != nil {
		return err
	}
	if got := strings.Count(rows, "\n"); got != len(a.GetJobs().GetJobs()) {
		d.bad("accounting has %d jobs, the queue had %d", got, len(a.GetJobs().GetJobs()))
	}
	gpu := demoJobs[2]
	d.say("$ stint events %d", gpu.id)
	if out, err = d.command(ctx, d.self, "events", "--dir", string(d.dir), strconv.Itoa(int(gpu.id))); err != nil {
		return err
	}
	d.say("%s", out)
	for _, word := range []string{"admitted", "placed", "started", "exited", "ended"} {
		if !strings.Contains(out, word) {
			d.bad("the story of the GPU job does not tell that it was %s", word)
		}
	}
	d.say("$ stint replay --verify")
	if out, err = d.command(ctx, d.self, "replay", "--verify", "--dir", string(d.dir)); err != nil {
		return err
	}
	d.say("%s", out)
	return nil
}

// finish takes the cluster down, looks that nothing is left, and says how it came out.
func (d *demo) finish(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	pids := map[string]int{}
	if p, perr := d.dir.LoadProcesses(); perr == nil && p != nil {
		pids = p.Children
		pids["up"] = p.Pid
	}
	if _, lerr := d.dir.Load(); lerr == nil {
		d.say("$ stint down")
		out, derr := d.command(ctx, d.self, "down", "--kill", "--dir", string(d.dir))
		fmt.Fprint(d.out, out)
		if derr != nil {
			err = errors.Join(err, derr)
			for name, pid := range pids { // whatever it takes: nothing may be left behind
				if strings.HasPrefix(name, "supervisor:") {
					stopSupervisor(supervisor.SocketPath(d.dir.Node(strings.TrimPrefix(name, "supervisor:"))), supervisor.StopMode_KILL_STEPS)
				}
				syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}
	for name, pid := range pids {
		gone := poll(ctx, func() error {
			if syscall.Kill(pid, 0) == nil {
				return errors.New("it runs")
			}
			return nil
		})
		if gone != nil {
			d.bad("%s, process %d, is still there", name, pid)
		}
	}
	if rerr := os.RemoveAll(d.base); rerr != nil {
		d.bad("the temporary folder could not be removed: %v", rerr)
	}
	took := time.Since(d.begun)
	if took > demoLimit {
		d.bad("it took %s, and may take %s", took.Round(time.Second), demoLimit)
	}
	if err != nil {
		return err
	}
	if len(d.wrong) > 0 {
		return fmt.Errorf("not everything came out as it must:\n  %s", strings.Join(d.wrong, "\n  "))
	}
	d.say("Everything came out as it must, in %s. Nothing is left behind.", took.Round(time.Second))
	return nil
}
