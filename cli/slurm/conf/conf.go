// Package conf reads the configuration files of a site: slurm.conf with what it includes, gres.conf and cgroup.conf, into
// the Config that goes into the log. Every key Slurm knows has a class; unknown keys are errors, as in Slurm.
package conf

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
)

// Note is a remark about one key as it was set.
type Note struct {
	Key   string
	Value string
	Where string // file:line
	Class Class
	Text  string
}

func (n Note) String() string { return fmt.Sprintf("%s: %s=%s: %s", n.Where, n.Key, n.Value, n.Text) }

// Result is a configuration and what is to be said about it.
type Result struct {
	Config     *events.Config
	Notes      []Note   // keys that are mapped, harmless or refused, in the order of the files
	Warnings   []string // what looks like a mistake and stops nothing
	Propagate, // PropagateResourceLimits as slurm.ParseRlimits has it: ALL, NONE or names; empty: not set
	PropagateExcept string
}

// Refusal is the error of the keys that are refused, nil if there are none.
func (r *Result) Refusal() error {
	var errs []error
	for _, n := range r.Notes {
		if n.Class == Refused {
			errs = append(errs, errors.New(n.String()))
		}
	}
	return errors.Join(errs...)
}

// Load reads slurm.conf at the path main, and gres.conf and cgroup.conf beside it where they exist. read returns the text of
// a file, and an error that is fs.ErrNotExist if there is none. A configuration with refused keys is not an error here: ask
// Refusal.
func Load(main string, read func(name string) ([]byte, error)) (*Result, error) {
	r := &reader{read: read, dir: path.Dir(main)}
	if err := r.file(main, 0); err != nil {
		return nil, err
	}
	b := newBuilder()
	for _, l := range r.lines {
		if err := b.line(l); err != nil {
			return nil, fmt.Errorf("%s: %w", l.where(), err)
		}
	}
	if _, there, err := optional(read, path.Join(r.dir, "gres.conf")); err != nil {
		return nil, err
	} else if there {
		g := &reader{read: read, dir: r.dir, cluster: r.cluster}
		if err := g.file(path.Join(r.dir, "gres.conf"), 0); err != nil {
			return nil, err
		}
		for _, l := range g.lines {
			if err := b.gresLine(l); err != nil {
				return nil, fmt.Errorf("%s: %w", l.where(), err)
			}
		}
	}
	if _, there, err := optional(read, path.Join(r.dir, "cgroup.conf")); err != nil {
		return nil, err
	} else if there {
		c := &reader{read: read, dir: r.dir, cluster: r.cluster}
		if err := c.file(path.Join(r.dir, "cgroup.conf"), 0); err != nil {
			return nil, err
		}
		for _, l := range c.lines {
			if err := b.cgroupLine(l); err != nil {
				return nil, fmt.Errorf("%s: %w", l.where(), err)
			}
		}
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	return &b.Result, nil
}

// Defaults is a configuration without nodes and partitions, with the values that Slurm has for what is not set.
func Defaults() *events.Config {
	return &events.Config{
		Cluster: "stint", Compat: slurm.Release2605.String(), KillWaitS: 30, MinJobAgeS: 300, MaxArraySize: 1001, MaxJobCount: 10000,
		SelectCore: true, SelectMemory: true, Backfill: true, FirstJobId: 1, JobRequeue: true, NodeTimeoutS: 300, BfWindowS: 86400,
		BfMaxJobTest: 500, BfResolutionS: 60,
	}
}

// builder makes a Result of lines.
type builder struct {
	Result
	overrides  bool              // SlurmdParameters=config_overrides
	seen       map[string]string // key to where it was set
	nodes      []*node
	nodeOf     map[string]*node
	nodeBase   []pair // what NodeName=DEFAULT lines said so far
	partitions []*partition
	partBase   []pair
	sets       map[string][]pair
	down       []record
	gres       []gresRecord
	selectType string
	selectPars string
}

// record is a line of several pairs, such as NodeName=….
type record struct {
	name  string
	pairs []pair
	at    line
}

func newBuilder() *builder {
	return &builder{Result: Result{Config: Defaults()}, seen: map[string]string{}, nodeOf: map[string]*node{}, sets: map[string][]pair{}}
}

func (b *builder) line(l line) error {
	switch strings.ToLower(l.pairs[0].key) {
	case "nodename":
		return b.nodeLine(record{l.pairs[0].value, l.pairs[1:], l})
	case "partitionname":
		return b.partitionLine(record{l.pairs[0].value, l.pairs[1:], l})
	case "nodeset":
		if _, twice := b.sets[l.pairs[0].value]; twice {
			return fmt.Errorf("NodeSet=%s is defined twice", l.pairs[0].value)
		}
		for _, p := range l.pairs[1:] {
			if k := strings.ToLower(p.key); k != "feature" && k != "nodes" {
				return fmt.Errorf("%s is not a key of NodeSet: known are Feature and Nodes", p.key)
			}
		}
		b.sets[l.pairs[0].value] = l.pairs[1:]
		return nil
	case "downnodes":
		b.down = append(b.down, record{l.pairs[0].value, l.pairs[1:], l})
		return nil
	}
	for _, p := range l.pairs {
		if err := b.setting(p, l); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) setting(p pair, l line) error {
	k, ok := keyNames.Get()[strings.ToLower(p.key)]
	if !ok {
		return fmt.Errorf("unrecognized key %s%s", p.key, b.near(p.key))
	}
	if before, twice := b.seen[k.name]; twice && k.name != "SlurmctldHost" {
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s: %s was set before at %s; the last one counts", l.where(), k.name, before))
	}
	b.seen[k.name] = l.where()
	class, text := classify(k, p.value)
	value := p.value
	if secret(k.name) {
		value = ""
	}
	if class != Honoured {
		b.Notes = append(b.Notes, Note{k.name, value, l.where(), class, text})
	}
	b.Config.Settings = append(b.Config.Settings, &events.Setting{Key: k.name, Value: value})
	if k.name == "SlurmdParameters" {
		b.overrides = slices.Contains(list(strings.ToLower(p.value)), "config_overrides")
	}
	if set, ok := setters.Get()[k.name]; ok {
		if err := set(b, p.value); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

func (b *builder) near(key string) string {
	var names []string
	for _, g := range keyTable {
		names = append(names, strings.Fields(g.keys)...)
	}
	if n, ok := slurm.Nearest(key, names); ok {
		return "; did you mean " + n + "?"
	}
	return ""
}

// setters are the honoured keys that are not lines of several pairs.
var setters = once.Value[map[string]func(*builder, string) error]{Make: func() map[string]func(*builder, string) error {
	return map[string]func(*builder, string) error{
		"ClusterName": func(b *builder, v string) error {
			if v == "" || strings.ContainsAny(v, "/ \t\n*") || len(v) > 40 {
				return fmt.Errorf("%q is not a name", clip(v))
			}
			b.Config.Cluster = strings.ToLower(v)
			return nil
		},
		"SlurmctldHost": func(b *builder, v string) error {
			host, _, _ := strings.Cut(v, "(")
			if len(b.Config.Controllers) > 0 {
				b.Notes = append(b.Notes, Note{"SlurmctldHost", v, b.seen["SlurmctldHost"], Mapped, "it stands by once `stint controller` runs there; nothing starts it from here"})
			}
			b.Config.Controllers = append(b.Config.Controllers, host)
			return nil
		},
		"SlurmUser":             func(b *builder, v string) error { b.Config.Admins = []string{v}; return nil },
		"SlurmCompat":           (*builder).compat,
		"PrivateData":           (*builder).privateData,
		"ScronParameters":       (*builder).scron,
		"SelfFence":             boolean(func(c *events.Config) *bool { return &c.SelfFence }),
		"JobRequeue":            boolean(func(c *events.Config) *bool { return &c.JobRequeue }),
		"DisableRootJobs":       boolean(func(c *events.Config) *bool { return &c.DisableRootJobs }),
		"JobFileAppend":         boolean(func(c *events.Config) *bool { return &c.JobFileAppend }),
		"KillWait":              number(func(c *events.Config) *uint32 { return &c.KillWaitS }, 0, 65533),
		"MinJobAge":             number(func(c *events.Config) *uint32 { return &c.MinJobAgeS }, 0, 1<<31),
		"MaxBatchRequeue":       number(func(c *events.Config) *uint32 { return &c.MaxBatchRequeue }, 1, 1<<31),
		"WaitTime":              checked(0, 65533),
		"KillOnBadExit":         checked(0, 1),
		"MaxTasksPerNode":       checked(1, 65533),
		"MaxStepCount":          checked(1, 1<<31),
		"MpiDefault":            mpiDefault,
		"SrunPortRange":         portRange,
		"SrunProlog":            programPath,
		"SrunEpilog":            programPath,
		"TaskProlog":            programPath,
		"TaskEpilog":            programPath,
		"RequeueExit":           exitCodes(func(c *events.Config) *[]uint32 { return &c.RequeueExit }),
		"RequeueExitHold":       exitCodes(func(c *events.Config) *[]uint32 { return &c.RequeueExitHold }),
		"MaxArraySize":          number(func(c *events.Config) *uint32 { return &c.MaxArraySize }, 0, 4000001),
		"MaxJobCount":           number(func(c *events.Config) *uint32 { return &c.MaxJobCount }, 1, 1<<30),
		"FirstJobId":            number(func(c *events.Config) *uint32 { return &c.FirstJobId }, 1, 0x03ff0000),
		"SlurmdTimeout":         number(func(c *events.Config) *uint32 { return &c.NodeTimeoutS }, 0, 65533),
		"DefCpuPerGPU":          number(func(c *events.Config) *uint32 { return &c.DefCpusPerGpu }, 0, 1<<20),
		"DefMemPerGPU":          memory(func(c *events.Config) *uint64 { return &c.DefMemPerGpuMib }),
		"DefMemPerCPU":          memory(func(c *events.Config) *uint64 { return &c.DefMemPerCpuMib }),
		"DefMemPerNode":         memory(func(c *events.Config) *uint64 { return &c.DefMemPerNodeMib }),
		"MaxMemPerCPU":          memory(func(c *events.Config) *uint64 { return &c.MaxMemPerCpuMib }),
		"MaxMemPerNode":         memory(func(c *events.Config) *uint64 { return &c.MaxMemPerNodeMib }),
		"OverTimeLimit":         func(b *builder, v string) (err error) { b.Config.OverTimeLimitS, err = minutes(v, 65533); return },
		"GresTypes":             func(b *builder, v string) error { b.Config.GresTypes = list(v); return nil },
		"Licenses":              (*builder).licenses,
		"MailDomain":            func(b *builder, v string) error { b.Config.MailDomain = v; return nil },
		"MailProg":              func(b *builder, v string) error { b.Config.MailProg = v; return nil },
		"SelectType":            func(b *builder, v string) error { b.selectType = strings.ToLower(v); return nil },
		"ReturnToService":       (*builder).returnToService,
		"SchedulerType":         (*builder).schedulerType,
		"EnforcePartLimits":     (*builder).enforcePartLimits,
		"AccountingStorageTRES": (*builder).accountingTRES,
		"TrackWCKey":            boolean(func(c *events.Config) *bool { return &c.TrackWckey }),
		"SelectTypeParameters": func(b *builder, v string) error {
			b.selectPars = v
			return nil
		},
		"SchedulerParameters":           (*builder).schedulerParameters,
		"SlurmctldParameters":           (*builder).controllerParameters,
		"AccountingStorageEnforce":      (*builder).accountingEnforce,
		"PropagateResourceLimits":       (*builder).propagate,
		"PropagateResourceLimitsExcept": (*builder).propagateExcept,
	}

}}

func boolean(field func(*events.Config) *bool) func(*builder, string) error {
	return func(b *builder, v string) (err error) { *field(b.Config), err = yesNo(v); return }
}

func number(field func(*events.Config) *uint32, least, most uint64) func(*builder, string) error {
	return func(b *builder, v string) error {
		n, err := whole(v, least, most)
		*field(b.Config) = uint32(n)
		return err
	}
}

func memory(field func(*events.Config) *uint64) func(*builder, string) error {
	return func(b *builder, v string) (err error) { *field(b.Config), err = mebibytes(v); return }
}

func (b *builder) compat(v string) error {
	r, ok := slurm.ParseRelease(v)
	if !ok {
		return fmt.Errorf("%q is not a release that can be emulated: 26.05 or 22.05", clip(v))
	}
	b.Config.Compat = r.String()
	return nil
}

// privateWords are what PrivateData may keep from others.
var privateWords = once.Value[map[string]events.Private]{Make: func() map[string]events.Private {
	return map[string]events.Private{
		"jobs": events.Private_PRIVATE_JOBS, "nodes": events.Private_PRIVATE_NODES, "partitions": events.Private_PRIVATE_PARTITIONS,
		"usage": events.Private_PRIVATE_USAGE, "events": events.Private_PRIVATE_EVENTS, "accounts": events.Private_PRIVATE_ACCOUNTS,
		"users": events.Private_PRIVATE_USERS, "reservations": events.Private_PRIVATE_RESERVATIONS,
	}

}}

func (b *builder) privateData(v string) error {
	b.Config.PrivateData = nil
	for _, word := range list(v) {
		p, known := privateWords.Get()[strings.ToLower(word)]
		switch {
		case strings.EqualFold(word, "none"):
		case strings.EqualFold(word, "cloud"):
			b.Warnings = append(b.Warnings, fmt.Sprintf("%s: PrivateData=cloud has no effect: there are no nodes that power down", b.seen["PrivateData"]))
		case !known:
			names := slices.Sorted(maps.Keys(privateWords.Get()))
			return fmt.Errorf("%q is not one of %s%s", clip(word), strings.Join(names, ", "), nearOf(strings.ToLower(word), names))
		case !slices.Contains(b.Config.PrivateData, p):
			b.Config.PrivateData = append(b.Config.PrivateData, p)
		}
	}
	return nil
}

// scron reads whether there are crontabs, and whether cancelling a job of one has to be meant.
func (b *builder) scron(v string) error {
	b.Config.Crontabs, b.Config.CronCancelExplicit = false, false
	for _, word := range list(v) {
		switch strings.ToLower(word) {
		case "enable":
			b.Config.Crontabs = true
		case "explicit_scancel":
			b.Config.CronCancelExplicit = true
		default:
			return fmt.Errorf("%q is not one of enable, explicit_scancel%s", clip(word), nearOf(strings.ToLower(word), []string{"enable", "explicit_scancel"}))
		}
	}
	return nil
}

func (b *builder) returnToService(v string) error {
	n, err := whole(v, 0, 2)
	b.Config.ReturnToServiceN, b.Config.ReturnToService = uint32(n), n > 0
	return err
}

func (b *builder) schedulerType(v string) error {
	switch strings.ToLower(v) {
	case "sched/backfill":
		b.Config.Backfill = true
	case "sched/builtin":
		b.Config.Backfill = false
	default:
		return fmt.Errorf("%q is not a scheduler: sched/backfill or sched/builtin", clip(v))
	}
	return nil
}

func (b *builder) enforcePartLimits(v string) error {
	b.Config.EnforcePartLimitsAll, b.Config.EnforcePartLimitsAny = false, false
	switch strings.ToLower(v) {
	case "all", "yes":
		b.Config.EnforcePartLimitsAll = true
	case "any":
		b.Config.EnforcePartLimitsAny = true
	case "no":
	default:
		return fmt.Errorf("%q is not one of ALL, ANY and NO", clip(v))
	}
	return nil
}

func nearOf(word string, names []string) string {
	if n, ok := slurm.Nearest(word, names); ok {
		return "; did you mean " + n + "?"
	}
	return ""
}

func (b *builder) propagate(v string) error {
	names, err := slurm.ParseRlimits(v, true)
	b.Propagate, b.Config.PropagateNone = names, names == "NONE"
	return err
}

func (b *builder) propagateExcept(v string) error {
	names, err := slurm.ParseRlimits(v, true)
	b.PropagateExcept, b.Config.PropagateNone = names, names == "ALL"
	return err
}

// selection reads SelectType and its parameters together.
func (b *builder) selection() error {
	c := b.Config
	switch b.selectType {
	case "", "select/cons_tres", "select/cons_res":
		c.SelectCore, c.SelectMemory = true, true
	case "select/linear":
		c.SelectLinear, c.SelectCore, c.SelectMemory = true, false, false
	default:
		return fmt.Errorf("SelectType: %q is not one of select/cons_tres and select/linear", clip(b.selectType))
	}
	if b.selectPars == "" {
		return nil
	}
	c.SelectCore, c.SelectMemory, c.OneTaskPerCore = false, false, false
	for _, p := range list(b.selectPars) {
		switch strings.ToUpper(p) {
		case "CR_CPU":
		case "CR_CPU_MEMORY":
			c.SelectMemory = true
		case "CR_CORE":
			c.SelectCore = true
		case "CR_CORE_MEMORY":
			c.SelectCore, c.SelectMemory = true, true
		case "CR_SOCKET":
			c.SelectSocket = true
		case "CR_SOCKET_MEMORY":
			c.SelectSocket, c.SelectMemory = true, true
		case "CR_MEMORY":
			c.SelectMemory = true
		case "CR_ONE_TASK_PER_CORE":
			c.OneTaskPerCore = true
		case "CR_LLN", "CR_PACK_NODES", "CR_CORE_DEFAULT_DIST_BLOCK", "LL_SHARED_GRES", "MULTIPLE_SHARING_GRES_PJ", "ENFORCE_BINDING_GRES", "ONE_TASK_PER_SHARING_GRES":
			b.Warnings = append(b.Warnings, fmt.Sprintf("%s: SelectTypeParameters: %s has no effect yet", b.seen["SelectTypeParameters"], p))
		default:
			return fmt.Errorf("SelectTypeParameters: %q is not known", clip(p))
		}
	}
	return nil
}

func (b *builder) finish() error {
	if err := b.selection(); err != nil {
		return err
	}
	if err := b.applyDown(); err != nil {
		return err
	}
	if err := b.finishNodes(); err != nil {
		return err
	}
	if err := b.finishPartitions(); err != nil {
		return err
	}
	if len(b.Config.Controllers) == 0 { // the names of old files
		for _, s := range b.Config.Settings {
			if s.Key == "ControlMachine" || s.Key == "BackupController" {
				b.Config.Controllers = append(b.Config.Controllers, s.Value)
			}
		}
	}
	return nil
}

// list splits a value at commas, empty members left out.
func list(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
}

func yesNo(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "yes", "y", "1", "true", "t", "up":
		return true, nil
	case "no", "n", "0", "false", "f", "down":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither YES nor NO", clip(v))
}

func whole(v string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n < least || n > most || v[0] == '+' {
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", clip(v), least, most)
	}
	return n, nil
}

// minutes reads a number of minutes or UNLIMITED, and returns seconds.
func minutes(v string, most uint64) (uint32, error) {
	switch strings.ToLower(v) {
	case "unlimited", "infinite":
		return slurm.Unlimited, nil
	}
	n, err := whole(v, 0, most)
	return uint32(n) * 60, err
}

// licenses reads which licences there are, and how many of each.
func (b *builder) licenses(v string) error {
	b.Config.Licenses = nil
	list, any, err := events.ParseLicenses(v)
	if err != nil {
		return err
	}
	if any {
		return fmt.Errorf("%q joins licences by |; use commas", v)
	}
	for _, l := range list {
		b.Config.Licenses = append(b.Config.Licenses, &events.LicenseDef{Name: l.Name, Count: l.Count})
	}
	return nil
}
