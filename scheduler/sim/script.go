package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/idset"
	"stint/projections"
	"stint/scheduler/cycle"
)

// Script drives a world by lines of text, one command each, and writes down what came of it. The commands:
//
//	nodes n[1-4] cpus=8 mem=16000 [gpus=a100:4] [threads=2] [sockets=2] [features=a,b] [weight=5]
//	partition NAME [nodes=ALL] [default] [max=MIN] [deftime=MIN] [tier=N] [state=down|drain|inactive] [maxnodes=N] [exclusive] [oneuser] [groups=a,b] [hosts=a,b] [alternate=NAME]
//	config KEY=VALUE …     kill_wait, backfill, select, defmem, requeue, min_job_age, node_timeout, max_jobs, enforce, over_time, accounts, tres,
//	                       requeue_exit=CODE,… requeue_exit_hold=CODE,…
//	clear                  forgets the nodes and partitions said so far
//	start                  configures the cluster (again, if it has started) with what was said so far
//	submit NAME OPTION … [: NAME OPTION …]   options: see readSpec; components of a heterogeneous job
//	cancel|hold|release|requeue|suspend|resume|top TARGET … [user=N] [signal=N] [special] [cron]
//	notify TARGET WORD …   user 1000 tells a job something
//	step JOB.STEP [over [cpu=SECONDS]] [nodes=n1] [name=N] [tasks=N] [mem=MIB] [limit=MIN] [gpus=all] [out=FILE]   a numbered step begins, or ends; tasks and time are those of each node
//	create|change|delete NAME …  an administrator makes, changes or removes a partition; options as of partition, and nodes+=, nodes-=
//	zone SECONDS [+AT=SECONDS …]  the site is so far east of UTC, and from AT seconds after the world began so far
//	crontab [user=N] M H DOM MON DOW NAME OPTION … [| M H …]   a user's crontab; options of a job; without entries it is removed
//	crontabs               what crontabs there are
//	trigger KIND … [nodes=|job=|offset=|perm|user=]   KIND: up, down, drained, fini, time …
//	untrigger [id=] [job=] [owner=] [user=N]
//	triggers               what triggers are set, and what they have noted
//	loglevel LEVEL|+FLAG|-FLAG …  an administrator says how much is logged
//	done ID [exit=N]       whoever holds an allocation without a script is done with it
//	update TARGET OPTION …
//	node NAME ORDER [reason]  order: drain, down, resume, fail, undrain, future
//	kill|restart|crash|cut|heal NODE
//	spoil|mend NODE        it can start nothing; it can again
//	depose                 another controller takes over
//	advance DURATION       e.g. 90s, 10m, 2h
//	queue                  jobs that are not over, and why they wait
//	nodes?                 what is used on each node
//	job ID                 one job, whatever its state
//	why ID                 what keeps a job from starting, and what would have it start
//	facts                  what the leader decided since it was last asked
type Script struct {
	World  *World
	opts   Options
	config *events.Config
	told   int // messages of the log reported by facts
	out    strings.Builder
}

// NewScript is a script for a new world.
func NewScript(o Options) *Script {
	return &Script{World: New(o), opts: o, config: &events.Config{
		Cluster: "sim", KillWaitS: 30, SelectCore: true, SelectMemory: true, DefMemPerCpuMib: 100, Backfill: true, JobRequeue: true, NodeTimeoutS: 60,
	}}
}

// Run runs lines and returns what they wrote.
func (s *Script) Run(lines string) string {
	s.out.Reset()
	for line := range strings.SplitSeq(lines, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.command(words[0], words[1:]); err != nil {
			fmt.Fprintf(&s.out, "%s: %v\n", line, err)
		}
		if err := s.World.Err(); err != nil {
			fmt.Fprintf(&s.out, "BROKEN: %v\n", err)
			break
		}
	}
	return s.out.String()
}

func (s *Script) print(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *Script) command(name string, args []string) error {
	switch name {
	case "nodes":
		return s.nodes(args)
	case "partition":
		return s.partition(args)
	case "config":
		return s.configure(args)
	case "clear":
		s.config.Nodes, s.config.Partitions = nil, nil
		return nil
	case "start":
		seq, _ := s.World.Intent(author(0), events.Verb_CONFIGURE, s.config.CloneVT())
		s.World.Advance(Second)
		if v := s.World.Fold.VerdictOf(seq, 0); v.GetCode() != events.Code_OK {
			s.print("refused: %s: %s", v.GetCode(), v.GetText())
		}
		return nil
	case "submit":
		return s.submit(args)
	case "cancel", "hold", "release", "requeue", "suspend", "resume", "top", "update":
		return s.control(name, args)
	case "notify":
		return s.notify(args)
	case "step":
		return s.step(args)
	case "create", "change", "delete":
		return s.repartition(name, args)
	case "zone":
		return s.zone(args)
	case "crontab":
		return s.crontab(args)
	case "crontabs":
		s.crontabs()
		return nil
	case "trigger", "untrigger":
		return s.trigger(name == "trigger", args)
	case "triggers":
		s.triggers()
		return nil
	case "loglevel":
		return s.loglevel(args)
	case "done":
		return s.done(args)
	case "node":
		return s.node(args)
	case "kill", "restart", "crash", "cut", "heal", "spoil", "mend":
		if len(args) != 1 {
			return fmt.Errorf("name one node")
		}
		map[string]func(string){"kill": s.World.Kill, "restart": s.World.Restart, "crash": s.World.Crash, "cut": s.World.Cut, "heal": s.World.Heal, "spoil": s.World.Spoil, "mend": s.World.Mend}[name](args[0])
		return nil
	case "clocks": // set: by how much
		if len(args) != 1 {
			return fmt.Errorf("say by how much, as -1h")
		}
		text, back := strings.CutPrefix(args[0], "-")
		by, err := duration(text)
		if err != nil {
			return err
		}
		if back {
			by = -by
		}
		s.World.SetClocks(by)
		return nil
	case "depose":
		s.World.Depose()
		return nil
	case "advance":
		return s.advance(args)
	case "queue":
		s.queue()
		return nil
	case "nodes?":
		s.usage()
		return nil
	case "job":
		id, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil {
			return err
		}
		s.job(uint32(id))
		return nil
	case "why":
		id, err := number(args[0])
		if err != nil {
			return err
		}
		s.why(id)
		return nil
	case "facts":
		s.facts()
		return nil
	}
	return fmt.Errorf("no such command")
}

func author(uid uint32) *events.Author {
	name := fmt.Sprintf("u%d", uid)
	if uid == 0 {
		name = "root"
	}
	return &events.Author{Uid: uid, Gid: uid, User: name, Group: name, GroupNames: []string{name}, Host: "login"}
}

// options are words with or without a value.
func options(words []string, each func(key, value string) error) error {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if err := each(key, value); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

func duration(text string) (int64, error) {
	if len(text) < 2 {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	unit := map[byte]int64{'s': Second, 'm': Minute, 'h': Hour, 'd': 24 * Hour}[text[len(text)-1]]
	if err != nil || unit == 0 {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	return n * unit, nil
}

func (s *Script) nodes(args []string) error {
	def := &events.NodeDef{Names: args[0], Cpus: 8, Sockets: 1, ThreadsPerCore: 1, MemoryMib: 16000, Weight: 1}
	err := options(args[1:], func(key, value string) (err error) {
		switch key {
		case "cpus":
			def.Cpus, err = number(value)
		case "mem":
			def.MemoryMib, err = strconv.ParseUint(value, 10, 64)
		case "threads":
			def.ThreadsPerCore, err = number(value)
		case "sockets":
			def.Sockets, err = number(value)
		case "weight":
			def.Weight, err = number(value)
		case "features":
			def.Features = strings.Split(value, ",")
		case "gpus":
			for one := range strings.SplitSeq(value, ",") {
				kind, count, _ := strings.Cut(one, ":")
				n, err := number(count)
				if err != nil {
					return err
				}
				def.Gres = append(def.Gres, &events.GresDef{Name: "gpu", Type: kind, Count: uint64(n)})
			}
		default:
			err = fmt.Errorf("no such option")
		}
		return err
	})
	def.CoresPerSocket = max(def.Cpus/(def.Sockets*def.ThreadsPerCore), 1)
	s.config.Nodes = append(s.config.Nodes, def)
	return err
}

func (s *Script) partition(args []string) error {
	p := newPartition(args[0])
	err := readPartition(p, args[1:])
	s.config.Partitions = slices.DeleteFunc(s.config.Partitions, func(q *events.PartitionDef) bool { return q.Name == p.Name })
	s.config.Partitions = append(s.config.Partitions, p)
	return err
}

func newPartition(name string) *events.PartitionDef {
	return &events.PartitionDef{Name: name, Nodes: "ALL", MaxTimeS: events.Unlimited, DefaultTimeS: 3600, MaxNodes: events.Unlimited, PriorityTier: 1}
}

func readPartition(p *events.PartitionDef, words []string) error {
	return options(words, func(key, value string) (err error) {
		n, _ := number(value)
		switch key {
		case "nodes":
			p.Nodes = value
		case "default":
			p.Default = true
		case "max":
			p.MaxTimeS = n * 60
		case "deftime":
			p.DefaultTimeS = n * 60
		case "tier":
			p.PriorityTier = n
		case "maxnodes":
			p.MaxNodes = n
		case "exclusive":
			p.Oversubscribe = "EXCLUSIVE"
		case "oneuser":
			p.ExclusiveUser = true
		case "hosts":
			p.AllocNodes = value
		case "alternate":
			p.Alternate = value
		case "accounts":
			p.AllowAccounts = strings.Split(value, ",")
		case "qos":
			p.AllowQos = strings.Split(value, ",")
		case "groups":
			p.AllowGroups = strings.Split(value, ",")
		case "state":
			p.State = map[string]events.PartitionState{"up": 0, "down": 1, "drain": 2, "inactive": 3}[value]
		default:
			err = fmt.Errorf("no such option")
		}
		return err
	})
}

func (s *Script) configure(args []string) error {
	return options(args, func(key, value string) error {
		n, _ := number(value)
		switch key {
		case "kill_wait":
			s.config.KillWaitS = n
		case "backfill":
			s.config.Backfill = value == "yes"
		case "select":
			s.config.SelectCore, s.config.SelectSocket, s.config.SelectLinear = value == "core", value == "socket", value == "linear"
		case "memory":
			s.config.SelectMemory = value == "yes"
		case "defmem":
			s.config.DefMemPerCpuMib = uint64(n)
		case "requeue":
			s.config.JobRequeue = value == "yes"
		case "requeue_exit", "requeue_exit_hold": // codes
			var codes []uint32
			for code := range strings.SplitSeq(value, ",") {
				n, _ := number(code)
				codes = append(codes, n)
			}
			if key == "requeue_exit" {
				s.config.RequeueExit = codes
			} else {
				s.config.RequeueExitHold = codes
			}
		case "min_job_age":
			s.config.MinJobAgeS = n
		case "node_timeout":
			s.config.NodeTimeoutS = n
		case "max_jobs":
			s.config.MaxJobCount = n
		case "private": // jobs, nodes …
			s.config.PrivateData = nil
			for what := range strings.SplitSeq(value, ",") {
				kind, ok := events.Private_value["PRIVATE_"+strings.ToUpper(what)]
				if !ok {
					return fmt.Errorf("nothing private is called %s", what)
				}
				s.config.PrivateData = append(s.config.PrivateData, events.Private(kind))
			}
		case "licenses":
			list, _, err := events.ParseLicenses(value)
			if err != nil {
				return err
			}
			s.config.Licenses = nil
			for _, l := range list {
				s.config.Licenses = append(s.config.Licenses, &events.LicenseDef{Name: l.Name, Count: l.Count})
			}
		case "enforce":
			s.config.EnforcePartLimitsAll = value == "all"
		case "accounts": // what submissions are held to: associations, qos, wckeys
			s.config.AccountingEnforce = strings.Split(value, ",")
		case "tres":
			s.config.AccountingTres = strings.Split(value, ",")
		case "over_time":
			s.config.OverTimeLimitS = n
		case "return":
			s.config.ReturnToServiceN = n
		case "crontabs":
			s.config.Crontabs, s.config.CronCancelExplicit = true, value == "explicit"
		case "slurmuser":
			s.config.Settings = append(s.config.Settings, &events.Setting{Key: "SlurmUser", Value: value})
		default:
			return fmt.Errorf("no such key")
		}
		return nil
	})
}

func (s *Script) submit(args []string) error {
	m, uid := &events.Submit{}, uint32(0)
	for more := true; more; {
		part := args
		at := slices.Index(args, ":")
		if more = at >= 0; more {
			part, args = args[:at], args[at+1:]
		}
		spec, user, err := readSpec(part, s.World.wall(s.World.now))
		if err != nil {
			return err
		}
		m.Components, uid = append(m.Components, spec), user
	}
	spec := m.Components[0]
	seq, id := s.World.Intent(author(uid), events.Verb_SUBMIT, m)
	s.World.Advance(max(s.opts.MinDelay, Millisecond))
	if v := s.World.Fold.VerdictOf(seq, 0); v.GetCode() != events.Code_OK {
		s.print("%s refused: %s: %s", spec.Name, v.GetCode(), v.GetText())
	} else if v == nil {
		s.print("%s is job %d, without a verdict", spec.Name, id)
	}
	return nil
}

// targets reads 12, 12_3, 12_[1-4], 12+1.
func targets(words []string) ([]*events.Target, error) {
	var out []*events.Target
	for _, w := range words {
		id, tasks, array := strings.Cut(w, "_")
		id, component, het := strings.Cut(id, "+")
		n, err := number(id)
		if err != nil {
			return nil, err
		}
		t := &events.Target{Job: n}
		if het {
			if t.Component, err = number(component); err != nil {
				return nil, err
			}
			t.HasComponent = true
		}
		if array {
			set, err := idset.Parse(tasks, idset.HighestTask)
			if err != nil {
				return nil, err
			}
			t.HasTasks = true
			t.Tasks = wordsOf(set)
		}
		out = append(out, t)
	}
	return out, nil
}

func wordsOf(set idset.Set) events.Words {
	var w events.Words
	for id := range set.All() {
		w.Set(uint32(id))
	}
	return w
}

func (s *Script) control(name string, args []string) error {
	uid, signal, admin, hold, special, cron := uint32(1000), int32(0), false, false, false, false
	change := &events.UpdateJob{}
	var ids []string
	err := options(args, func(key, value string) error {
		n, _ := number(value)
		switch key {
		case "user":
			uid = n
		case "signal":
			signal = int32(n)
		case "admin":
			admin = true
		case "hold":
			hold = true
		case "special":
			hold, special = true, true
		case "cron":
			cron = true
		case "limit":
			n *= 60
			change.TimeLimitS = &n
		case "partition":
			change.Partition = &value
		case "name":
			change.Name = &value
		case "priority":
			change.Priority = &n
		case "nice":
			nice := int32(n)
			change.Nice = &nice
		case "throttle":
			change.ArrayThrottle = &n
		case "nodelist":
			change.NodeList = &value
		case "cpus":
			change.Cpus = &n
		case "N":
			least, most, ranged := strings.Cut(value, "-")
			lo, _ := number(least)
			if change.MinNodes = &lo; ranged {
				hi, _ := number(most)
				change.MaxNodes = &hi
			}
		case "dep":
			list, anyOf, err := readDependencies(value)
			if err != nil {
				return err
			}
			change.Dependencies, change.DependencyAny, change.SetDependencies = list, anyOf, true
		default:
			if value != "" {
				return fmt.Errorf("no such option")
			}
			ids = append(ids, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	list, err := targets(ids)
	if err != nil {
		return err
	}
	var verb events.Verb
	var body interface{ MarshalVT() ([]byte, error) }
	switch name {
	case "cancel":
		verb, body = events.Verb_CANCEL, &events.Cancel{Targets: list, Signal: signal, Cron: cron}
	case "hold":
		verb, body = events.Verb_HOLD, &events.Select{Targets: list, Admin: admin}
	case "release":
		verb, body = events.Verb_RELEASE, &events.Select{Targets: list}
	case "requeue":
		verb, body = events.Verb_REQUEUE, &events.Requeue{Targets: list, Hold: hold, Special: special}
	case "suspend":
		verb, body = events.Verb_SUSPEND, &events.Select{Targets: list}
	case "resume":
		verb, body = events.Verb_RESUME, &events.Select{Targets: list}
	case "top":
		verb, body = events.Verb_TOP, &events.Select{Targets: list}
	case "update":
		change.Targets = list
		verb, body = events.Verb_UPDATE_JOB, change
	}
	return s.verdict(uid, verb, body)
}

func (s *Script) verdict(uid uint32, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }) error {
	seq, _ := s.World.Intent(author(uid), verb, body)
	s.World.Advance(max(s.opts.MinDelay, Millisecond))
	v := s.World.Fold.VerdictOf(seq, 0)
	switch {
	case v == nil:
		s.print("no verdict")
	case v.Code != events.Code_OK:
		s.print("refused: %s: %s", v.Code, v.Text)
	default:
		for _, one := range v.Verdicts {
			s.print("not %d: %s: %s", one.Job, one.Code, one.Text)
		}
	}
	return nil
}

func (s *Script) node(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("give a node and an order")
	}
	order, known := map[string]events.NodeOrder{"drain": events.NodeOrder_NODE_DRAIN, "down": events.NodeOrder_NODE_DOWN, "resume": events.NodeOrder_NODE_RESUME, "fail": events.NodeOrder_NODE_FAIL_ORDER, "undrain": events.NodeOrder_NODE_UNDRAIN, "future": events.NodeOrder_NODE_FUTURE}[args[1]]
	if !known {
		return fmt.Errorf("no such order")
	}
	u := &events.UpdateNode{Nodes: args[0], Order: order}
	if len(args) > 2 {
		reason := strings.Join(args[2:], " ")
		u.Reason = &reason
	}
	return s.verdict(0, events.Verb_UPDATE_NODE, u)
}

func (s *Script) advance(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one duration")
	}
	d, err := duration(args[0])
	if err != nil {
		return err
	}
	s.World.Advance(d)
	return nil
}

// name writes a job's id as squeue does.
func name(j *projections.Job) string {
	switch {
	case j.HasTask:
		return fmt.Sprintf("%d_%d", j.ArrayId, j.ArrayTask)
	case j.HetId != 0:
		return fmt.Sprintf("%d+%d", j.HetId, j.HetOffset)
	case j.Remainder():
		return fmt.Sprintf("%d_[%s]", j.Id, events.Words(j.Pending))
	}
	return strconv.FormatUint(uint64(j.Id), 10)
}

// since writes a time as seconds since the world began.
func since(at int64) string { return fmt.Sprintf("+%d", (at-Epoch)/Second) }

func (s *Script) queue() {
	outcomes := map[uint32]*projections.Outcome{}
	for _, o := range s.World.Outcomes() {
		outcomes[o.Job] = o
	}
	none := true
	s.World.Fold.EachJob(func(j *projections.Job) bool {
		if j.Over() && !j.Completing {
			return true
		}
		none = false
		o := outcomes[j.Id]
		line := fmt.Sprintf("%-10s %-8s %-10s", name(j), j.Spec.GetName(), j.State.Word())
		switch {
		case j.Completing:
			line += " completing on " + hostlist.Compress(j.Unreported())
		case !j.Waits():
			line += " " + hostlist.Compress(j.Allocation.NodeNames())
		case o == nil:
			line += " (None)"
		default:
			line += " (" + o.Reason.Word()
			if o.Text != "" {
				line += ", " + o.Text
			}
			line += ")"
			if o.StartUs != 0 {
				line += " starts " + since(o.StartUs) + " on " + o.Nodes
			}
			for i, b := range o.Blockers {
				line += map[bool]string{true: ": ", false: ", "}[i == 0] + fmt.Sprintf("%s %d of %d", b.Text, b.Have, b.Need)
			}
		}
		s.print("%s", line)
		return true
	})
	if none {
		s.print("no jobs")
	}
}

func (s *Script) usage() {
	for _, n := range s.World.Fold.Nodes() {
		state := "up"
		switch {
		case n.Lost:
			state = "lost"
		case n.Down:
			state = "down"
		case !n.Up:
			state = "unknown"
		case n.Drain:
			state = "drain"
		case n.Fail:
			state = "fail"
		}
		line := fmt.Sprintf("%-4s %-7s cpus %s mem %d", n.Name, state, orNone(events.Words(n.CpusUsed).String()), n.MemoryUsedMib)
		for _, g := range n.Gres {
			line += fmt.Sprintf(" %s:%s %s", g.Name, g.Type, orNone(events.Words(g.Used).String()))
		}
		if len(n.Jobs) > 0 {
			line += fmt.Sprintf(" jobs %v", n.Jobs)
		}
		if n.Reason != "" {
			line += " (" + n.Reason + ")"
		}
		s.print("%s", line)
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (s *Script) job(id uint32) {
	j := s.World.Fold.Job(id)
	if j == nil {
		s.print("%d is not hot", id)
		return
	}
	line := fmt.Sprintf("%s %s run %d exit %d:%d", name(j), j.State.Word(), j.Run, j.ExitCode, j.ExitSignal)
	if j.Reason != events.Reason_NONE {
		line += " reason " + j.Reason.Word()
	}
	if j.StartUs != 0 {
		line += " start " + since(j.StartUs)
	}
	if j.ResizedUs != 0 {
		line += " resized " + since(j.ResizedUs)
	}
	if j.EndUs != 0 {
		line += " end " + since(j.EndUs)
	}
	if j.Allocation != nil {
		line += " on " + cycle.DescribeAllocation(j.Allocation)
	}
	s.print("%s priority %d", line, j.Priority)
}

// facts writes what leaders decided since it was last asked.
func (s *Script) facts() {
	for ; s.told < len(s.World.log); s.told++ {
		m := &s.World.log[s.told]
		e := events.Decode(m.Seq, m.At, m.Subject, m.Data)
		for _, f := range e.Sched.GetCycle().GetFacts() {
			if text := cycle.Describe(f, Epoch); text != "" {
				s.print("%s %s", since(e.Sched.GetCycle().NowUs), text)
			}
		}
	}
}

// why writes what a pass finds in the way of a job, and what would have it start.
func (s *Script) why(id uint32) {
	x := cycle.Explain(s.World.Fold, id, s.World.wall(s.World.now))
	if x.StartsNow != "" {
		s.print("%d starts on %s", id, x.StartsNow)
	}
	for _, p := range x.Partitions {
		for _, n := range p.Nodes {
			s.print("%-8s %d %s: %s %s", p.Partition, n.Count, n.What, n.Names, n.Text)
		}
	}
	for _, r := range x.Remedies {
		s.print("%s -> %s", r.Change, r.Nodes)
	}
}

// done ends an allocation without a script, by its holder.
func (s *Script) done(args []string) error {
	m, uid := &events.Complete{}, uint32(1000)
	id, err := number(args[0])
	if err != nil {
		return err
	}
	m.Job = id
	if err := options(args[1:], func(key, value string) error {
		n, err := number(value)
		switch key {
		case "exit":
			m.ExitCode = n
		case "user":
			uid = n
		default:
			return fmt.Errorf("no such option")
		}
		return err
	}); err != nil {
		return err
	}
	return s.verdict(uid, events.Verb_COMPLETE, m)
}
