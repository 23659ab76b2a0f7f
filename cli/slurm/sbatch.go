package slurm

import (
	"fmt"
	"path"
	"strings"
	"time"

	"stint/events"
	"stint/events/hostlist"
	"stint/events/tres"
)

// SbatchInput is what a call of sbatch depends on.
type SbatchInput struct {
	Args    []string  // without the command's name
	Environ []string  // NAME=value
	Dir     string    // the working directory, absolute
	Now     time.Time // in the user's time zone
	Release Release   // the release emulated
	Root    bool      // root calls
	Nice    int       // of the process that calls
	Limit   int       // largest script in bytes, 0 for MaxScript
	// Read returns the text of a script and the absolute path it was found at; an empty path is standard input. Its
	// error becomes the failure's sentence. It is called at most once for the script, and once more for --nodefile.
	Read func(path string) (text []byte, found string, err error)
}

// Submission is what a call of sbatch asks for.
type Submission struct {
	Print   string // not empty: print this and exit with 0, nothing is submitted
	Spec    *events.JobSpec
	Script  []byte   // goes to BLOBS; Spec.Script is not set yet, nor are Environment, Umask, Rlimits and SubmitHost
	Environ []string // NAME=value, what the job's environment begins with
	Notes   []string // sentences for stderr that stop nothing

	More []*Submission // the further components of a heterogeneous job: their Spec, Script and Environ count, the rest is that of the first

	Clusters  string // as given
	Propagate string // which resource limits to pass: empty for the site's choice, ALL, NONE or names joined by commas
	Parsable  bool
	Quiet     bool
	Verbose   int
	Wait      bool
	TestOnly  bool   // say when it would start, and submit nothing
	AsUser    string // the user to submit as, a name or a number; empty: the caller
	AsGroup   string // likewise the group
}

// request is a Submission in the making.
type request struct {
	Submission
	in        SbatchInput
	table     *Table                    // of the command
	own       func(Given) (bool, error) // options that only this command has; nil: none
	name      string                    // of the job, if nobody gives it one
	wrap      string
	wrapped   bool
	ignorePBS bool
	export    string
	exported  bool
	memory    map[string]Source // which of the ways to ask for memory were used, and from where
	gres      map[string][]*events.Gres
	waitFor   string // SBATCH_WAIT4SWITCH
	shaped    bool   // -B
	open      bool   // so many tasks on each of a number of nodes that is not fixed
	hinted    string // --hint, as given
	memBound  MemBind

	perTaskCPUs     uint32               // of --tres-per-task
	perTaskLicenses []*events.LicenseDef // likewise
	gpuClock        string               // --gpu-freq, as given
	gpuBound        string               // --gpu-bind, as given

	fileEnviron []string // of --export-file; nil: not given
	dist        bool
}

// Sbatch reads a call of sbatch: its command line, the SBATCH_ variables and the #SBATCH lines of the script, each
// outranking the next. The error is a *Failure.
func Sbatch(in SbatchInput) (*Submission, error) {
	first := newRequest(in)
	var own [][]Given // on the command line, by component
	args, words := in.Args, []string(nil)
	for more := true; more; {
		given, rest, err := SbatchTable.Parse(args, in.Release)
		if err != nil {
			return nil, err
		}
		own, words = append(own, given), rest
		if more = len(rest) > 0 && rest[0] == ":"; more {
			args = rest[1:]
		}
		for _, g := range given { // what makes the script unnecessary comes first, wherever it stands
			switch g.Option.Effect {
			case "help", "usage", "version":
				return &Submission{Print: standardText(&SbatchTable, g.Option.Effect, in.Release)}, nil
			case "wrap":
				first.wrap, first.wrapped = g.Value, true
			case "ignore-pbs":
				first.ignorePBS = true
			}
		}
	}
	name, directives, err := first.takeScript(words)
	if err != nil {
		return nil, err
	}
	written := [][]Given{nil} // in the script, by component
	for _, d := range directives {
		if d.System == "" && len(d.Words) == 1 && (d.Words[0] == "hetjob" || d.Words[0] == "packjob") {
			written = append(written, nil)
			continue
		}
		more, err := first.directive(d, name)
		if err != nil {
			return nil, err
		}
		last := len(written) - 1
		written[last] = append(written[last], more...)
	}
	for len(own) < len(written) {
		own = append(own, nil)
	}
	for len(written) < len(own) {
		written = append(written, nil)
	}
	return first.components(written, own, SbatchTable.FromEnv(Lookup(in.Environ), in.Release))
}

func newRequest(in SbatchInput) *request {
	q := &request{in: in, table: &SbatchTable, memory: map[string]Source{}, gres: map[string][]*events.Gres{}}
	q.Spec = &events.JobSpec{WorkDir: in.Dir}
	if in.Limit == 0 {
		q.in.Limit = MaxScript
	}
	return q
}

// standardText is what --help, --usage and --version print.
func standardText(t *Table, effect string, r Release) string {
	switch effect {
	case "help":
		return t.Help(r)
	case "usage":
		return t.UsageLine()
	}
	return r.Version() + "\n"
}

// takeScript gets the script from --wrap, a file or standard input, and names the job after it.
func (q *request) takeScript(words []string) (string, []Directive, error) {
	spec := q.Spec
	if q.wrapped {
		if len(words) > 0 {
			return "", nil, refusal("--wrap makes the script, so %s can not be one too; put its arguments into --wrap", clip(words[0]))
		}
		q.Script = Wrap(q.wrap)
		spec.Name = "wrap"
		return "", nil, nil
	}
	file := ""
	if len(words) > 0 {
		file = words[0]
		for _, a := range words[1:] {
			spec.Args = append(spec.Args, []byte(a))
		}
	}
	text, found, err := q.in.Read(file)
	if err != nil {
		return "", nil, refusal("%v", err)
	}
	name := file
	if file == "" {
		name, spec.Name = "standard input", "sbatch"
	} else {
		spec.Name, spec.Command = path.Base(file), found
	}
	q.Script = text
	list, err := Directives(text, name, q.in.Limit)
	return name, list, err
}

// directive reads the options of one #SBATCH line.
func (q *request) directive(d Directive, script string) ([]Given, error) {
	where := fmt.Sprintf("line %d of %s", d.Line, script)
	if d.System != "" {
		if q.ignorePBS {
			return nil, nil
		}
		var notes []string
		d.Words, notes = foreign(d.System, d.Words)
		for _, n := range notes {
			q.Notes = append(q.Notes, fmt.Sprintf("%s: #%s %s; write #SBATCH", where, d.System, n))
		}
	}
	given, words, err := SbatchTable.Parse(d.Words, q.in.Release)
	if err != nil {
		f := err.(*Failure)
		return nil, &Failure{Text: where + ": " + f.Text, Exit: f.Exit, Bare: true, Hint: f.Hint}
	}
	if len(words) > 0 {
		return nil, usage("%s: %s is no option; a #SBATCH line holds options only, quote values with blanks", where, clip(words[0]))
	}
	kept := given[:0]
	for _, g := range given {
		switch g.Option.Effect {
		case "help", "usage", "version", "wrap":
			q.Notes = append(q.Notes, fmt.Sprintf("%s: %s counts on the command line only", where, g.Option.Spelled()))
			continue
		case "ignore-pbs":
			q.ignorePBS = true
			continue
		}
		g.Source, g.Where = FromScript, where
		kept = append(kept, g)
	}
	return kept, nil
}

// apply lets one option have its effect.
func (q *request) apply(g Given) error {
	if q.own != nil {
		if mine, err := q.own(g); mine {
			return err
		}
	}
	if g.Option.Effect == "" {
		if harmless(g) {
			return nil
		}
		return q.table.Refused(g)
	}
	effect, ok := sbatchEffects.Get()[g.Option.Effect]
	if !ok {
		return q.table.Refused(g)
	}
	err := effect(q, g)
	if f, ok := err.(*Failure); ok && g.Where != "" {
		return &Failure{Text: g.Where + ": " + f.Text, Exit: f.Exit, Bare: f.Bare, Hint: f.Hint}
	}
	return err
}

// harmless says whether an option that is not supported asks for what happens anyway.
func harmless(g Given) bool {
	v := strings.ToLower(g.Value)
	switch g.Option.Name {
	case "mem-bind", "gpu-bind", "tres-bind":
		return v == "none" || v == "q" || v == "quiet"
	}
	return false
}

// finish checks what options mean together and fills in what follows from them.
func (q *request) finish() error {
	s := q.Spec
	if err := q.ofTasks(); err != nil {
		return err
	}
	for _, key := range []string{"gres", "gpus-per-node", "gpus", "gpus-per-task", "gpus-per-socket", "tres-per-task"} {
		for _, g := range q.gres[key] {
			for _, have := range s.Gres {
				if have.Scope == g.Scope && have.Name == g.Name && have.Type == g.Type && have.Count != g.Count {
					return refusal("--gres and --gpus-per-node ask for different numbers of %s on each node; give one of them", g.Name)
				}
				if have.Scope == g.Scope && have.Name == g.Name && have.Type == g.Type {
					g = nil
					break
				}
			}
			if g != nil {
				s.Gres = append(s.Gres, g)
			}
		}
	}
	if s.TimeMinS != 0 && s.TimeLimitS != 0 && s.TimeMinS > s.TimeLimitS {
		return refusal("--time-min is longer than --time; it must be shorter")
	}
	if err := q.agree(); err != nil {
		return err
	}
	if err := q.licensesOfTasks(); err != nil {
		return err
	}
	if q.waitFor != "" && s.Switches != "" && !strings.Contains(s.Switches, "@") {
		s.Switches += "@" + q.waitFor
	}
	if q.dist && s.NodeList == "" && strings.HasPrefix(s.Distribution, "arbitrary") {
		return refusal("--distribution=arbitrary lays tasks out in the order of --nodelist, which is missing")
	}
	environ := q.in.Environ
	if q.fileEnviron != nil { // what the file holds takes the place of the submitter's environment
		environ = append(q.fileEnviron, slurmVariables(environ)...)
	}
	env, err := Export(environ, q.export, q.exported)
	if err != nil {
		return err
	}
	q.Environ = env.Environ
	if q.exported {
		s.Export = q.export
		s.GetUserEnv = s.GetUserEnv || env.GetUserEnv
	}
	s.SubmitLine = submitLine(q.table.Command, q.in.Args)
	q.tell()
	q.cpusOfGPUs(total(q.gres["gpus-per-task"]))
	return nil
}

// slurmVariables are those of an environment that always pass.
func slurmVariables(environ []string) []string {
	var out []string
	for _, nv := range environ {
		if strings.HasPrefix(nv, "SLURM_") {
			out = append(out, nv)
		}
	}
	return out
}

// submitLine is the words of the command line, cut to a length worth keeping. They are not quoted: Slurm does not either.
func submitLine(command string, args []string) string {
	var b strings.Builder
	b.WriteString(command)
	for _, a := range args {
		b.WriteByte(' ')
		b.WriteString(a)
		if b.Len() > 4096 {
			return b.String()[:4093] + "..."
		}
	}
	return b.String()
}

// nodes checks a host list, and returns it as given.
func nodes(option, value string) (string, error) {
	if _, err := hostlist.Count(value, hostlist.MaxHosts); err != nil {
		return "", refusal("%s: %v", option, err)
	}
	return value, nil
}

// memory reads an amount for one of the three ways to ask for memory; a later source replaces an earlier one's way.
func (q *request) memoryOf(g Given) (mib uint64, err error) {
	n, err := tres.ParseMemory(g.Value)
	if err != nil {
		return 0, usage("--%s: %v", g.Option.Name, err)
	}
	for way, source := range q.memory {
		if way == g.Option.Effect {
			continue
		}
		if source == g.Source {
			return 0, refusal("--mem, --mem-per-cpu and --mem-per-gpu exclude one another; give one of them")
		}
		delete(q.memory, way)
	}
	q.memory[g.Option.Effect] = g.Source
	s := q.Spec
	s.MemPerNodeMib, s.MemPerCpuMib, s.MemPerGpuMib, s.MemAll = 0, 0, 0, false
	return uint64(n), nil
}
