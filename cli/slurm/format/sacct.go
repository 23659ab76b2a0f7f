package format

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events"
	"stint/events/tres"
	"stint/ledger/rows"
)

// Account is a row of sacct: a run of a job, or (Step not nil) one step of it.
type Account struct {
	Job     *rows.JobRow
	Step    *rows.StepRow
	Context *AccountContext
	Now     *Use // of a step that lives, for sstat
}

// AccountContext is what the rows of one answer of sacct have in common.
type AccountContext struct {
	Context
	Unit tres.Unit // --units and --noconvert
}

// Accounts makes rows of records: the job's, then those of its steps.
func Accounts(records []*rows.Record, c *AccountContext) []Account {
	var list []Account
	for _, r := range records {
		if !r.GetStepsOnly() {
			list = append(list, Account{Job: r.GetJob(), Context: c})
		}
		for _, s := range r.GetSteps() {
			list = append(list, Account{Job: r.GetJob(), Step: s, Context: c})
		}
	}
	return list
}

// AccountField is a column of sacct.
type AccountField struct {
	Name  string
	Width int // negative: to the left
	Since slurm.Release
	Until slurm.Release
	Value func(Account) string
}

// Table is the columns of a call of sacct.
type Table struct{ columns []tableColumn }

type tableColumn struct {
	field *AccountField
	width int
	left  bool
}

// removedFields are names that Slurm has dropped, and what took their place.
var removedFields = once.Value[map[string]struct{ name, instead string }]{Make: func() map[string]struct{ name, instead string } {
	return map[string]struct{ name, instead string }{
		"allocgres": {"AllocGRES", "AllocTRES"}, "reqgres": {"ReqGRES", "ReqTRES"}, "reserved": {"Reserved", "Planned"}, "resvcpu": {"ResvCPU", "PlannedCPU"},
		"resvcpuraw": {"ResvCPURAW", "PlannedCPURAW"},
	}

}}

// AccountTable reads the value of sacct's -o.
func AccountTable(format string, r slurm.Release) (Table, error) {
	return tableOf(AccountFields.Get(), format, r)
}

// tableOf reads `NAME[%[-]WIDTH],…`, names in any case; ALL is every column.
func tableOf(fields []AccountField, format string, r slurm.Release) (Table, error) {
	var t Table
	widths := map[*AccountField]tableColumn{}
	for _, part := range strings.FieldsFunc(format, func(c rune) bool { return c == ',' }) {
		name, spec, sized := strings.Cut(strings.TrimSpace(part), "%")
		if strings.EqualFold(name, "ALL") {
			for i := range fields {
				if f := &fields[i]; f.in(r) {
					t.columns = append(t.columns, newColumn(f))
				}
			}
			continue
		}
		field, names := accountField(fields, name, r)
		if field == nil {
			if gone, is := removedFields.Get()[strings.ToLower(name)]; is {
				return t, &slurm.Failure{Text: fmt.Sprintf("%s has been removed, please use %s", gone.name, gone.instead), Exit: slurm.ExitFailed}
			}
			text := fmt.Sprintf("Invalid field requested: %q", name)
			if near, ok := slurm.Nearest(strings.ToLower(name), lower(names)); ok {
				text += "; did you mean " + near + "?"
			}
			return t, &slurm.Failure{Text: text, Exit: slurm.ExitFailed}
		}
		c := newColumn(field)
		if sized {
			n, err := strconv.Atoi(spec)
			if err != nil && r > slurm.Release2205 || n > maxWidth || n < -maxWidth {
				return t, &slurm.Failure{Text: fmt.Sprintf("%q is not a width: write %s%%20, or %s%%-20 to set it to the left", spec, field.Name, field.Name), Exit: slurm.ExitFailed}
			}
			c.width, c.left = abs(n), n < 0 // what is no number is none at all, as scripts of before 23.02 may have it
			widths[field] = c
		}
		if t.columns = append(t.columns, c); len(t.columns) > maxColumns {
			return t, &slurm.Failure{Text: fmt.Sprintf("more than %d columns", maxColumns), Exit: slurm.ExitFailed}
		}
	}
	// A field that is asked for twice has one width, the one given last: real sacct keeps it with the field.
	for i := range t.columns {
		if w, ok := widths[t.columns[i].field]; ok {
			t.columns[i].width, t.columns[i].left = w.width, w.left
		}
	}
	if len(t.columns) == 0 {
		return t, &slurm.Failure{Text: "no column is asked for", Exit: slurm.ExitFailed}
	}
	return t, nil
}

// Has says whether a column shows the field of this name.
func (t Table) Has(name string) bool {
	for _, c := range t.columns {
		if c.field.Name == name {
			return true
		}
	}
	return false
}

// OfKinds says whether all columns can be shown of records that are told as kinds and rows (rows.Kinds), and need none that only the
// scheduler knows.
func (t Table) OfKinds() bool {
	return !slices.ContainsFunc(t.columns, func(c tableColumn) bool { return !kindFields.Get()[c.field.Name] })
}

var kindFields = once.Value[map[string]bool]{Make: func() map[string]bool {
	return fieldSet(`JobID JobIDRaw JobName Account Partition QOS User UID Group GID AllocCPUS NCPUS ReqCPUS AllocNodes NNodes ReqNodes State ExitCode
		DerivedExitCode Submit Eligible Start End Elapsed ElapsedRaw NodeList AllocTRES ReqTRES ReqMem Cluster`)
}}

// accountField is the column of that name, or the first whose name begins with it; names are those of all columns.
func accountField(fields []AccountField, name string, r slurm.Release) (field *AccountField, names []string) {
	var begins *AccountField
	for i := range fields {
		f := &fields[i]
		if !f.in(r) {
			continue
		}
		names = append(names, f.Name)
		if strings.EqualFold(f.Name, name) {
			field = f
		}
		if begins == nil && name != "" && len(name) < len(f.Name) && strings.EqualFold(f.Name[:len(name)], name) {
			begins = f
		}
	}
	if field == nil {
		field = begins
	}
	return field, names
}

func newColumn(f *AccountField) tableColumn { return tableColumn{f, abs(f.Width), f.Width < 0} }

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

func (f *AccountField) in(r slurm.Release) bool {
	return (f.Since == 0 || r >= f.Since) && (f.Until == 0 || r <= f.Until)
}

// Head is the lines of headings: names and dashes, or names alone where fields are separated.
func (t Table) Head(q slurm.Separation) string {
	if q.Parsable {
		return t.joined(q, func(c tableColumn) string { return c.field.Name })
	}
	var b strings.Builder
	for _, c := range t.columns {
		if c.width > 0 {
			b.Write(place(nil, c.field.Name, c.width, !c.left))
		}
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	for _, c := range t.columns {
		b.WriteString(strings.Repeat("-", c.width))
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	return b.String()
}

// Row is the line of one row. What does not fit ends in a plus.
func (t Table) Row(q slurm.Separation, a Account) string {
	return string(t.Lines(q).Next(a))
}

// TableLines is the lines of rows, one after another. What a row has in common with the one before it, because both are told as of one
// kind (rows.Kinds), is not worked out again.
type TableLines struct {
	table  Table
	q      slurm.Separation
	before *rows.JobRow
	cells  []string
	line   []byte
}

// Lines begins to make lines.
func (t Table) Lines(q slurm.Separation) *TableLines {
	return &TableLines{table: t, q: q, cells: make([]string, len(t.columns))}
}

// Next is the line of a row, good until the next one.
func (s *TableLines) Next(a Account) []byte {
	same := a.Step == nil && a.Job == s.before
	b := s.line[:0]
	for i, c := range s.table.columns {
		if !same || ownFields.Get()[c.field.Name] {
			s.cells[i] = c.text(s.q, c.field.Value(a))
		}
		if s.q.Parsable && i > 0 {
			b = append(b, s.q.Delimiter...)
		}
		b = append(b, s.cells[i]...)
		if !s.q.Parsable {
			b = append(b, ' ')
		}
	}
	if s.q.Parsable && s.q.Trailing {
		b = append(b, s.q.Delimiter...)
	}
	s.line = append(b, '\n')
	if s.before = a.Job; a.Step != nil {
		s.before = nil
	}
	return s.line
}

// text is a value as a line has it.
func (c tableColumn) text(q slurm.Separation, v string) string {
	if !q.Parsable {
		return c.cell(v)
	}
	if datedFields.Get()[c.field.Name] && len(v) > c.width {
		return v[:c.width]
	}
	return v
}

// ownFields are the columns in which records of one kind differ.
var ownFields = once.Value[map[string]bool]{Make: func() map[string]bool {
	return fieldSet("JobID JobIDRaw Submit Eligible Start End Elapsed ElapsedRaw")
}}

// Columns that are not cut as text is: numbers and durations are whole however narrow the column, dates lose their end without a
// plus, even between separators.
var (
	wholeFields = once.Value[map[string]bool]{Make: func() map[string]bool {
		return fieldSet(`AllocCPUS AllocNodes AssocID ConsumedEnergyRaw CPUTime CPUTimeRAW DBIndex Elapsed ElapsedRaw GID MaxDiskReadTask MaxDiskWriteTask
		MaxPagesTask MaxRSSTask MaxVMSizeTask MinCPUTask NCPUS NNodes NTasks Planned PlannedCPU PlannedCPURAW Priority QOSRAW ReqCPUS ReservationId Reserved ResvCPU
		ResvCPURAW Suspended UID WCKeyID`)
	}}
	datedFields = once.Value[map[string]bool]{Make: func() map[string]bool { return fieldSet("Eligible End Start Submit") }}
)

func fieldSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

// cell is a value in its column.
func (c tableColumn) cell(v string) string {
	switch n := len(v); {
	case wholeFields.Get()[c.field.Name]:
		if v == "" && c.width == 0 {
			return " " // a number that there is not
		}
		if n > c.width {
			return v
		}
	case n <= c.width:
	case c.width == 0:
		return ""
	case datedFields.Get()[c.field.Name]:
		return v[:c.width]
	default:
		return v[:c.width-1] + "+"
	}
	return string(place(nil, v, c.width, !c.left))
}

func (t Table) joined(q slurm.Separation, value func(tableColumn) string) string {
	var b strings.Builder
	for i, c := range t.columns {
		if i > 0 {
			b.WriteString(q.Delimiter)
		}
		b.WriteString(value(c))
	}
	if q.Trailing {
		b.WriteString(q.Delimiter)
	}
	b.WriteByte('\n')
	return b.String()
}

// AccountFieldNames is what sacct --helpformat prints: four names a line.
func AccountFieldNames(r slurm.Release) string { return fieldNames(AccountFields.Get(), r) }

func fieldNames(fields []AccountField, r slurm.Release) string {
	var b strings.Builder
	n := 0
	for i := range fields {
		f := &fields[i]
		if !f.in(r) {
			continue
		}
		if n > 0 {
			b.WriteString([]string{"\n", " "}[min(n%4, 1)])
		}
		fmt.Fprintf(&b, "%-19s", f.Name)
		n++
	}
	b.WriteByte('\n')
	return b.String()
}

// jobOnly makes a field that steps leave empty.
func jobOnly(get func(*rows.JobRow) string) func(Account) string {
	return func(a Account) string {
		if a.Step != nil {
			return ""
		}
		return get(a.Job)
	}
}

// stepOnly makes a field that jobs leave empty.
func stepOnly(get func(Account) string) func(Account) string {
	return func(a Account) string {
		if a.Step == nil {
			return ""
		}
		return get(a)
	}
}

func nothing(Account) string { return "" }

func (a Account) start() int64 {
	if a.Step != nil {
		return a.Step.GetStartUs()
	}
	return a.Job.GetStartUs()
}

func (a Account) end() int64 {
	if a.Step != nil {
		return a.Step.GetEndUs()
	}
	return a.Job.GetEndUs()
}

// elapsed is in seconds, time suspended left out.
func (a Account) elapsed() int64 {
	start, end := a.start(), a.end()
	if start == 0 {
		return 0
	}
	now := a.Context.Clock.Now.UnixMicro()
	if end == 0 {
		end = now - a.Job.GetLeaptUs()
	}
	s := end/1e6 - start/1e6 // of the times as they are printed
	if a.Step == nil || a.Step.GetEndUs() == 0 || a.Step.GetStep() == events.StepBatch {
		s -= a.suspended() / 1e6
	}
	return max(s, 0)
}

func (a Account) suspended() int64 {
	us := a.Job.GetSuspendedUs()
	if since := a.Job.GetSuspendedSinceUs(); since != 0 && a.Job.GetEndUs() == 0 {
		us += a.Context.Clock.Now.UnixMicro() - since
	}
	return us
}

func (a Account) alloc() *rows.Tres {
	if a.Step != nil {
		return a.Step.GetAlloc()
	}
	return a.Job.GetAlloc()
}

func (a Account) cpus() uint64 {
	if t := a.alloc(); t != nil {
		return t.GetCpus()
	}
	return a.Job.GetReq().GetCpus()
}

func (a Account) nodeCount() uint32 {
	if a.Step != nil {
		return a.Step.GetNodeCount()
	}
	if t := a.Job.GetAlloc(); t != nil {
		return t.GetNodes()
	}
	return a.Job.GetReq().GetNodes()
}

func (a Account) state() string {
	j := a.Job
	switch {
	case a.Step != nil && j.GetResized() && a.Step.GetEndUs() == j.GetEndUs():
		return "RESIZING" // it goes on in the next row of its job
	case a.Step != nil && a.Step.GetWasCancelled() && a.Step.GetState() == events.JobState_CANCELLED:
		return fmt.Sprintf("CANCELLED by %d", a.Step.GetCancelledBy())
	case a.Step != nil && a.Step.GetEndUs() == 0 && j.GetState() == events.JobState_SUSPENDED:
		return "SUSPENDED"
	case a.Step != nil:
		return a.Step.GetState().Word()
	}
	switch {
	case j.GetRequeued():
		return "REQUEUED"
	case j.GetResized():
		return "RESIZING"
	case j.GetState() == events.JobState_CANCELLED && j.GetWasCancelled():
		return fmt.Sprintf("CANCELLED by %d", j.GetCancelledBy())
	}
	return j.GetState().Word()
}

func (a Account) tresText(t *rows.Tres, billing bool) string {
	if t == nil {
		return ""
	}
	var l tres.List
	l.Set("cpu", int64(t.GetCpus()))
	if m := t.GetMemMib(); m > 0 {
		l.Set("mem", int64(m))
	}
	if n := t.GetNodes(); n > 0 {
		l.Set("node", int64(n))
	}
	if b := t.GetBilling(); b > 0 && billing {
		l.Set("billing", int64(b))
	}
	for _, g := range t.GetGres() {
		addGres(&l, g.GetName(), g.GetType(), int64(g.GetCount()))
	}
	return l.Alphabetical(a.Context.Unit)
}

func (a Account) time(us int64, none string) string { return a.Context.Clock.Time(us, none) }

// startText is when it started; a job that was cancelled before shows its end.
func (a Account) startText() string {
	if a.start() == 0 && a.Step == nil && a.Job.GetState().Final() {
		return a.time(a.end(), "None")
	}
	return a.time(a.start(), "Unknown")
}

func (a Account) exitCode() string {
	if a.Step != nil {
		// Of a step on a node that failed nobody heard how it ended: what an executor that is still there says comes too late for Slurm.
		if a.Step.GetUnseen() || a.Job.GetState() == events.JobState_NODE_FAIL && a.Step.GetState() == events.JobState_CANCELLED {
			return ""
		}
		return fmt.Sprintf("%d:%d", a.Step.GetExitCode(), a.Step.GetExitSignal())
	}
	code, signal := a.ended()
	return fmt.Sprintf("%d:%d", code, signal)
}

// ended is the exit status of a job. Accounting writes down the end of one that was stopped when it orders that, before there is one.
func (a Account) ended() (code, signal uint32) {
	switch a.Job.GetState() {
	case events.JobState_CANCELLED, events.JobState_TIMEOUT, events.JobState_NODE_FAIL, events.JobState_PREEMPTED, events.JobState_DEADLINE:
		return 0, 0
	}
	return a.Job.GetExitCode(), a.Job.GetExitSignal()
}

func (a Account) label(raw bool) string {
	s := rows.LabelCut(a.Job, a.Context.BitstrLen)
	if raw {
		s = rows.RawLabel(a.Job)
	}
	if a.Step != nil {
		s += "." + events.StepName(a.Step.GetStep())
	}
	return s
}

// Peaks: a value, the node and the task where it was seen; nothing was measured if there is none.
type peak func(*rows.StepRow) *rows.Peak

func (p peak) value(print func(Account, uint64) string) func(Account) string {
	return stepOnly(func(a Account) string {
		v := p(a.Step)
		if v == nil || !a.measured() {
			return ""
		}
		return print(a, v.GetValue())
	})
}

func (p peak) node() func(Account) string {
	return stepOnly(func(a Account) string {
		if !a.measured() {
			return ""
		}
		return p(a.Step).GetNode()
	})
}

func (p peak) task() func(Account) string {
	return stepOnly(func(a Account) string {
		v := p(a.Step)
		if v == nil || !a.measured() {
			return ""
		}
		return u32(v.GetTask())
	})
}

func kib(a Account, n uint64) string { return tres.Format(float64(n), 'K', a.Context.Unit) }

// disk prints bytes in MiB, as the real sacct has it.
func disk(a Account, n uint64) string {
	if n == 0 {
		return "0"
	}
	return tres.Format(float64(n)/(1<<20), 'M', a.Context.Unit)
}

func plainCount(_ Account, n uint64) string { return strconv.FormatUint(n, 10) }

func longCPU(_ Account, us uint64) string { return Long(int64(us / 1e6)) }

// sampled is how often releases of before 23.02 looked at the usage of a step, at the least, in seconds: of a shorter one nothing was
// known.
const sampled = 5

// measured says whether anything is known of what the step used.
func (a Account) measured() bool {
	s := a.Step
	if s == nil || s.GetMaxRssKib() == nil && s.GetSamples() == 0 {
		return false
	}
	return a.Context.Release >= 2302 || a.elapsed() >= sampled
}

// measured makes a field of a sum that is shown only if anything was measured.
func measured(get func(*rows.StepRow) uint64, print func(Account, uint64) string) func(Account) string {
	return stepOnly(func(a Account) string {
		if !a.measured() {
			return ""
		}
		return print(a, get(a.Step))
	})
}

// over divides a sum by the number of tasks.
func over(get func(*rows.StepRow) uint64) func(*rows.StepRow) uint64 {
	return func(s *rows.StepRow) uint64 { return get(s) / uint64(max(s.GetTasks(), 1)) }
}

func (a Account) cpuTime() (user, system uint64) {
	if a.Step != nil {
		return a.Step.GetUserUs(), a.Step.GetSystemUs()
	}
	return a.Job.GetUserUs(), a.Job.GetSystemUs()
}

// spent is the parts of TRESUsageIn…, memory in KiB.
type spent struct{ cpuUs, read, memory, pages, virtual uint64 }

// usageIn prints what a step used, resources in the order of their names, in units of bytes and pieces.
func usageIn(get func(*rows.StepRow) spent) func(Account) string {
	return stepOnly(func(a Account) string {
		if !a.measured() {
			return "energy=0"
		}
		u := get(a.Step)
		return fmt.Sprintf("cpu=%s,energy=0,fs/disk=%s,mem=%s,pages=%s,vmem=%s", Long(int64(u.cpuUs/1e6)), pieces(a, u.read), pieces(a, u.memory<<10), pieces(a, u.pages), pieces(a, u.virtual<<10))
	})
}

func pieces(a Account, n uint64) string { return tres.Format(float64(n), 0, a.Context.Unit) }

// usageMax is peaks. The least of each is not kept apart: with one task a node they are the same.
func usageMax(a Account) string {
	if !a.measured() {
		return ""
	}
	return usageIn(func(s *rows.StepRow) spent {
		return spent{s.GetMinCpuUs().GetValue(), s.GetMaxRead().GetValue(), s.GetMaxRssKib().GetValue(), s.GetMaxPages().GetValue(), s.GetMaxVmKib().GetValue()}
	})(a)
}

// A named peak is what a peak is of.
type namedPeak struct {
	name string
	peak *rows.Peak
}

func peaksIn(s *rows.StepRow) []namedPeak {
	return []namedPeak{{"cpu", s.GetMinCpuUs()}, {"fs/disk", s.GetMaxRead()}, {"mem", s.GetMaxRssKib()}, {"pages", s.GetMaxPages()}, {"vmem", s.GetMaxVmKib()}}
}

func peaksOut(s *rows.StepRow) []namedPeak { return []namedPeak{{"fs/disk", s.GetMaxWrite()}} }

// usageNode is where peaks were seen. Energy, of which there is none, was seen where memory was.
func usageNode(of func(*rows.StepRow) []namedPeak) func(Account) string {
	return usageAt(func(s *rows.StepRow) []namedPeak {
		list := slices.Insert(of(s), 0, namedPeak{"energy", s.GetMaxRssKib()})
		slices.SortStableFunc(list, func(a, b namedPeak) int { return cmp.Compare(a.name, b.name) })
		return list
	}, (*rows.Peak).GetNode)
}

// usageTask is which task's peaks are.
func usageTask(of func(*rows.StepRow) []namedPeak) func(Account) string {
	return usageAt(of, func(p *rows.Peak) string { return u32(p.GetTask()) })
}

func usageAt(of func(*rows.StepRow) []namedPeak, get func(*rows.Peak) string) func(Account) string {
	return stepOnly(func(a Account) string {
		if !a.measured() {
			return ""
		}
		var terms []string
		for _, p := range of(a.Step) {
			if p.peak != nil {
				terms = append(terms, p.name+"="+get(p.peak))
			}
		}
		return strings.Join(terms, ",")
	})
}

func usageOut(get func(*rows.StepRow) uint64) func(Account) string {
	return stepOnly(func(a Account) string {
		if !a.measured() {
			return "energy=0"
		}
		return "energy=0,fs/disk=" + pieces(a, get(a.Step))
	})
}
