package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"stint/cli/site"
	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

func scontrol(args []string, w *World) int {
	s, err := slurm.ReadScontrol(w.input(args))
	switch {
	case err != nil:
		return w.complain("scontrol", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	case s.Verb == "":
		return converse(args, w)
	}
	w.yaml = s.YAML
	if s.Clusters != "" {
		info, err := w.config("scontrol")
		if err != nil {
			return w.unmet("scontrol", err)
		}
		if err := w.other(s.Clusters, info.GetConfig().GetCluster()); err != nil {
			return w.complain("scontrol", err)
		}
	}
	if s.JSON && s.Verb != "show" {
		return w.complain("scontrol", fmt.Errorf("scontrol %s --json is not supported by Stint yet", s.Verb))
	}
	switch s.Verb {
	case "show":
		return scontrolShow(s, w)
	case "hold", "uhold":
		return act(s, w, events.Verb_HOLD, func(t []*events.Target) body { return &events.Select{Targets: t, Admin: s.Verb == "hold"} })
	case "release":
		return act(s, w, events.Verb_RELEASE, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "suspend":
		return act(s, w, events.Verb_SUSPEND, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "resume":
		return act(s, w, events.Verb_RESUME, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "requeue":
		return act(s, w, events.Verb_REQUEUE, func(t []*events.Target) body {
			return &events.Requeue{Targets: t, Hold: s.Hold, Incomplete: s.Undone, Special: s.Special}
		})
	case "update":
		switch {
		case s.Node != nil:
			return send(s, w, events.Verb_UPDATE_NODE, s.Node)
		case s.Entity == "partition":
			return partition(s, w)
		case s.Step != nil:
			return act(s, w, events.Verb_UPDATE_STEP, func(t []*events.Target) body { s.Step.Targets = t; return s.Step })
		}
		return act(s, w, events.Verb_UPDATE_JOB, func(t []*events.Target) body { s.Job.Targets = t; return s.Job })
	case "create", "delete":
		return partition(s, w)
	case "notify":
		return act(s, w, events.Verb_NOTIFY, func(t []*events.Target) body { return &events.Notify{Targets: t, Text: s.Text} })
	case "top":
		return act(s, w, events.Verb_TOP, func(t []*events.Target) body { return &events.Select{Targets: t} })
	case "setdebug", "setdebugflags":
		return send(s, w, events.Verb_SET_CONFIG, s.Config)
	case "cluster":
		return 0 // whether it is this one has been looked at
	case "errnumstr":
		fmt.Fprintln(w.Stdout, errorText(s.Number))
		return 0
	case "listpids", "listjobs", "liststeps", "pidinfo":
		return processes(s, w)
	case "ping":
		return ping(w)
	case "wait_job":
		return waitJob(s, w)
	case "completing":
		return completing(w)
	case "reconfigure":
		return reconfigure(s, w)
	case "write":
		if s.Entity == "config" {
			return writeConfig(s, w)
		}
		return writeScript(s, w)
	}
	return w.complain("scontrol", fmt.Errorf("scontrol %s is not supported by Stint yet", s.Verb))
}

type body interface{ MarshalVT() ([]byte, error) }

// act has one thing done to the jobs that were named, by id or by name.
func act(s *slurm.Scontrol, w *World, verb events.Verb, make func([]*events.Target) body) int {
	targets := s.Targets
	if len(s.JobNames) > 0 {
		more, err := named(s.JobNames, s.Users, w)
		switch {
		case errors.Is(err, errNoneNamed) && s.Verb != "update":
			w.complain("scontrol", err)
			return 0 // as Slurm has it
		case err != nil:
			return w.complain("scontrol", err)
		}
		targets = append(targets, more...)
	}
	code := 0
	for part := range slices.Chunk(targets, targetsAtOnce) {
		code = max(code, send(s, w, verb, make(part)))
	}
	return code
}

// named finds the caller's jobs of the given names; root means everybody's.
func named(names, users []string, w *World) ([]*events.Target, error) {
	ask := &projections.AskJobs{Names: names, Slim: true}
	switch {
	case len(users) > 0:
		ask.Users = w.names("scontrol", users)
	case w.Uid != 0:
		ask.Users = []string{w.user()}
	}
	a, err := w.jobs("scontrol", ask)
	if err != nil {
		return nil, errors.New(why(err))
	}
	var targets []*events.Target
	seen := map[uint32]bool{}
	for _, v := range a.GetJobs().GetJobs() {
		if id := v.GetJob().Family(); !seen[id] {
			seen[id] = true
			targets = append(targets, &events.Target{Job: id})
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%w %s: %s", errNoneNamed, strings.Join(names, ","), refusals.Get()[events.Code_UNKNOWN_JOB])
	}
	return targets, nil
}

var errNoneNamed = errors.New("no job of yours is called")

// send sends one act, and says what of it failed.
func send(s *slurm.Scontrol, w *World, verb events.Verb, b body) int {
	v, err := w.control("scontrol", verb, b)
	if err != nil {
		return w.unmet("scontrol", err)
	}
	if len(v.Targets) == 0 {
		if v.Code == events.Code_OK {
			return 0
		}
		fmt.Fprintf(w.Stderr, "slurm_%s error: %s\n", s.Verb, refused(v.Code, v.Text))
		return 1
	}
	code := 0
	for _, t := range v.Targets {
		if t.Code == events.Code_BAD_STATE && v.Touched > 0 && (verb == events.Verb_HOLD || verb == events.Verb_RELEASE) {
			continue // of an array what waits is held, and tasks that run are left alone
		}
		code = 1
		fmt.Fprintln(w.Stderr, failure(s, t))
	}
	return code
}

// failure says why an act was not done to one of its targets, which is called as it was given.
func failure(s *slurm.Scontrol, v *events.Verdict) string {
	text := refused(v.Code, v.Text)
	if refusals.Get()[v.Code] == "" {
		return text
	}
	for _, t := range s.Targets {
		if t.Job == v.Job && t.HasTasks {
			return targetLabel(t) + ": " + text
		}
	}
	if v.Name != "" {
		return text + " for " + v.Name
	}
	return fmt.Sprintf("%s for job %d", text, v.Job)
}

func ping(w *World) int {
	info, err := w.config("scontrol")
	io.WriteString(w.Stdout, format.Ping("primary", w.controllerHost(info), err == nil))
	if err != nil {
		fmt.Fprintf(w.Stderr, "scontrol: %s\n", why(err))
		return 1
	}
	return 0
}

// controllerHost is where the controller runs, as far as anybody knows.
func (w *World) controllerHost(info *projections.AnswerConfig) string {
	if list := info.GetConfig().GetControllers(); len(list) > 0 {
		return list[0]
	}
	if name := info.GetController(); name != "" {
		return name
	}
	return w.Host
}

// waitJob waits until the nodes of jobs are ready, which they are when a job has them. One that waits, is over or is unknown
// has none: Slurm ends at once and with 1.
func waitJob(s *slurm.Scontrol, w *World) int {
	for _, t := range s.Targets {
		a, err := w.jobs("scontrol", &projections.AskJobs{Ids: []uint32{t.Job}, AllStates: true, Slim: true})
		if err != nil {
			return w.unmet("scontrol", err)
		}
		c := w.context("", false)
		rows := narrowed(format.Jobs(a.GetJobs().GetJobs(), &c, false), []*events.Target{t})
		if len(rows) == 0 {
			return w.complain("scontrol", fmt.Errorf("job %s: %s", targetLabel(t), refusals.Get()[events.Code_UNKNOWN_JOB]))
		}
		for _, r := range rows {
			switch {
			case r.Over():
				return w.complain("scontrol", fmt.Errorf("job %s: %s", r.Label(), refusals.Get()[events.Code_ALREADY_DONE]))
			case r.Waits():
				return w.complain("scontrol", fmt.Errorf("job %s has not started, so it has no nodes that could be ready", r.Label()))
			}
		}
	}
	return 0
}

// completing shows the jobs that are over, or told to end, and wait for the word of their nodes.
func completing(w *World) int {
	a, err := w.jobs("scontrol", &projections.AskJobs{Slim: true})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	for _, v := range a.GetJobs().GetJobs() {
		j := v.GetJob()
		if !j.GetCompleting() {
			continue
		}
		since := j.GetEndUs()
		if stop := j.GetStop(); stop != nil {
			since = stop.GetAtUs()
		}
		fmt.Fprintf(w.Stdout, "JobId=%d EndTime=%s CompletingTime=%s Nodes(COMPLETING)=%s\n", j.GetId(), w.clock().Time(j.GetEndUs(), "Unknown"),
			format.Long(max(w.Now.UnixMicro()-since, 0)/1e6), strings.Join(j.Unreported(), ","))
	}
	return 0
}

// reconfigure has the configuration file of the cluster read again and taken over into the log. It is read here, so it must be
// a host that has it, and whoever may read it.
func reconfigure(s *slurm.Scontrol, w *World) int {
	dir := site.Dir(w.State)
	cluster, err := dir.Load()
	if err != nil {
		return w.complain("scontrol", fmt.Errorf("what the configuration was made from is not known here (%w): run it on the controller's host, as the user who runs the cluster or root", err))
	}
	info, err := os.Stat(w.State)
	if err != nil {
		return w.complain("scontrol", fmt.Errorf("whose the cluster is cannot be told: %w", err))
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	config, notes, err := site.Reread(cluster, owner)
	if err != nil {
		return w.complain("scontrol", err)
	}
	if !s.Quiet {
		for _, n := range notes {
			fmt.Fprintf(w.Stderr, "scontrol: %s\n", n)
		}
	}
	if code := send(s, w, events.Verb_CONFIGURE, config); code != 0 {
		return code
	}
	if err := tookOver(dir, cluster); err != nil {
		return w.complain("scontrol", fmt.Errorf("the configuration is taken over, but this host could not be told: %w; run `stint down --keep` and `stint up`", err))
	}
	return 0
}

// tookOver writes down what the new configuration means for the host, and tells `stint up` of it if it runs here.
func tookOver(dir site.Dir, c *site.Cluster) error {
	if err := dir.Save(c); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(string(dir), wire.CompatFile), []byte(c.Compat+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing which Slurm is emulated: %w", err)
	}
	p, err := dir.LoadProcesses()
	if err != nil || p == nil {
		return err
	}
	return syscall.Kill(p.Pid, site.RereadSignal)
}

// writeScript writes the script of a job into a file, or prints it.
func writeScript(s *slurm.Scontrol, w *World) int {
	// The real scontrol ends with 0 when it finds no script; what it says is on stderr.
	fail := func(err error) int {
		w.complain("scontrol", fmt.Errorf("job script retrieval failed: %w", err))
		return 0
	}
	t, err := slurm.ParseTarget(s.IDs[0])
	if err != nil {
		return w.complain("scontrol", err)
	}
	a, err := w.jobs("scontrol", &projections.AskJobs{Ids: []uint32{t.Job}, AllStates: true})
	if err != nil {
		return w.unmet("scontrol", err)
	}
	c := w.context("", false)
	rows := narrowed(format.Jobs(a.GetJobs().GetJobs(), &c, false), []*events.Target{t})
	if len(rows) == 0 {
		return fail(errors.New(refusals.Get()[events.Code_UNKNOWN_JOB]))
	}
	script := rows[0].GetSpec().GetScript()
	if script.GetLength() == 0 {
		return fail(fmt.Errorf("job %s has no batch script", s.IDs[0]))
	}
	conn, err := w.connect("scontrol")
	if err != nil {
		return w.unmet("scontrol", err)
	}
	text, err := conn.Blob(script)
	if err != nil {
		return fail(errors.New(why(err)))
	}
	file := "slurm-" + s.IDs[0] + ".sh"
	if len(s.IDs) > 1 {
		file = s.IDs[1]
	}
	if file == "-" {
		w.Stdout.Write(text)
		return 0
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.Dir, path)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return w.complain("scontrol", fmt.Errorf("writing the script of job %s to %s: %w", s.IDs[0], file, plain(err)))
	}
	if !s.Quiet {
		fmt.Fprintf(w.Stdout, "batch script for job %s written to %s\n", s.IDs[0], file)
	}
	return 0
}
