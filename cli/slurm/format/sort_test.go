package format

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/events"
	"stint/projections"
)

// queueOf is a queue in which jobs were submitted among the starts of an array's tasks: array 10 throttled to one task at a time.
func queueOf() []Job {
	at := func(s int64) int64 { return (1700000000 + s) * 1e6 }
	task := func(id, n uint32, start int64) *projections.Job {
		return &projections.Job{Id: id, ArrayId: 10, ArrayTask: n, HasTask: true, State: events.JobState_RUNNING, StartUs: at(start)}
	}
	waits := func(id uint32) *projections.Job {
		return &projections.Job{Id: id, State: events.JobState_PENDING, Spec: &events.JobSpec{}}
	}
	begins := func(id uint32, s int64) *projections.Job {
		j := waits(id)
		j.BeginUs = at(s)
		return j
	}
	jobs := []*projections.Job{
		{Id: 10, ArrayId: 10, State: events.JobState_PENDING, Pending: []uint64{0b11000}},
		task(12, 0, 1), task(14, 1, 1), task(15, 2, 1), waits(11), begins(13, 5000), waits(16), waits(17), begins(18, 9000),
	}
	var views []*projections.JobView
	for _, j := range jobs {
		if j.Spec == nil {
			j.Spec = &events.JobSpec{}
		}
		views = append(views, &projections.JobView{Job: j})
	}
	c := testContext(slurm.Release2605)
	c.Clock.Now = c.Clock.Now.AddDate(-10, 0, 0)
	return Jobs(views, c, false)
}

func labels(rows []Job) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Label())
	}
	return strings.Join(out, " ")
}

// The orders of equal rows were observed on Slurm 22.05.8.
func TestOrderOfEqualRows(t *testing.T) {
	for _, c := range []struct {
		name, sort string
		one        bool
		want       string
	}{
		{"the controller's list", "", false, "10_0 11 10_1 13 10_2 10_[3-4] 16 17 18"},
		{"equal in everything", "u", false, "18 13 10_0 10_1 10_2 17 16 10_[3-4] 11"},
		{"turned round, they are equal still", "-u", false, "18 13 10_0 10_1 10_2 17 16 10_[3-4] 11"},
		{"starts that are not known come last", "S", false, "10_0 10_1 10_2 13 18 11 10_[3-4] 16 17"},
		{"either way", "-S", false, "18 13 10_0 10_1 10_2 11 10_[3-4] 16 17"},
		{"no nodes are the last of nodes", "N", false, "11 10_[3-4] 16 17 10_2 10_1 10_0 13 18"},
		{"and the first", "-N", false, "18 13 10_0 10_1 10_2 17 16 10_[3-4] 11"},
		{"states", "t", false, "18 13 17 16 10_[3-4] 11 10_0 10_1 10_2"},
	} {
		rows := queueOf()
		if c.sort == "" {
			AsListed(rows, c.one)
		} else {
			AsLoaded(rows, c.one)
			s, notes, err := SqueueFields.Get().Sort(c.sort, JobSort(slurm.Release2605))
			if err != nil || len(notes) > 0 {
				t.Fatal(err, notes)
			}
			s.Rows(rows)
		}
		if got := labels(rows); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, letter := range "cfghnO" { // taken by 22.05, which does not sort by them
		rows, same := queueOf(), queueOf()
		AsLoaded(rows, false)
		AsLoaded(same, false)
		s, _, err := SqueueFields.Get().Sort("-"+string(letter), JobSort(slurm.Release2205))
		if err != nil {
			t.Fatal(err)
		}
		s.Rows(rows)
		if got := labels(rows); got != labels(same) {
			t.Errorf("-S %c: %s", letter, got)
		}
	}
	for list, want := range map[string]string{"n[1-2]": "n1", "n12": "n12", "n[2,7]": "n2", "a1,n3": "a1", "login": "login", "r1n[07-09]": "r1n07"} {
		if firstHost(list) != firstHost(want) {
			t.Errorf("first host of %s: %s, want %s", list, firstHost(list), firstHost(want))
		}
	}
	if firstHost("n9") >= firstHost("n10") {
		t.Error("n9 is not before n10")
	}
	array := queueOf()[:4]
	AsListed(array, true)
	if got := labels(array); got != "10_[3-4] 10_2 10_1 10_0" {
		t.Errorf("one array: %s", got)
	}
	if got := labels(Expanded(array[:2])); got != "10_3 10_4 10_2" {
		t.Errorf("expanded: %s", got)
	}
	for _, letter := range "aAEFkKoqrRswWxXyYZ" {
		if _, _, err := SqueueFields.Get().Sort(string(letter), JobSort(slurm.Release2605)); err == nil {
			t.Errorf("-S %c was accepted", letter)
		}
	}
	if _, notes, err := SqueueFields.Get().Sort("b,i", JobSort(slurm.Release2605)); err != nil || len(notes) != 1 {
		t.Errorf("-S b: %v %v", notes, err)
	}
}

func TestReasons(t *testing.T) {
	old, new := testContext(slurm.Release2205), testContext(slurm.Release2605)
	for _, c := range []struct {
		job     *projections.Job
		outcome *projections.Outcome
		context *Context
		want    string // %r, then %R
	}{
		{&projections.Job{State: events.JobState_FAILED, Reason: events.Reason_RAISED_SIGNAL, ExitSignal: 9}, nil, old, "JobLaunchFailure|(JobLaunchFailure)"},
		{&projections.Job{State: events.JobState_FAILED, Reason: events.Reason_RAISED_SIGNAL, ExitSignal: 9}, nil, new, "RaisedSignal:9(Killed)|(RaisedSignal:9(Killed))"},
		{&projections.Job{State: events.JobState_FAILED, Reason: events.Reason_NON_ZERO_EXIT_CODE, ExitCode: 1}, nil, new, "NonZeroExitCode|(NonZeroExitCode)"},
		{&projections.Job{State: events.JobState_TIMEOUT, Reason: events.Reason_TIME_LIMIT, StartUs: 1}, nil, new, "TimeLimit|(TimeLimit)"},
		{&projections.Job{State: events.JobState_CANCELLED, Hold: events.HoldKind_HELD_USER}, nil, old, "JobHeldUser|"},
		{&projections.Job{State: events.JobState_CANCELLED, Hold: events.HoldKind_HELD_ADMIN}, nil, old, "JobHeldAdmin|"},
		{&projections.Job{State: events.JobState_COMPLETED, StartUs: 1}, nil, old, "None|"},
		{&projections.Job{State: events.JobState_PENDING}, &projections.Outcome{Reason: events.Reason_REQ_NODE_NOT_AVAIL, Text: "UnavailableNodes:n1"}, old, nodesMissing + "|(" + nodesMissing + ")"},
		{&projections.Job{State: events.JobState_PENDING, Spec: &events.JobSpec{NodeList: "n1"}}, &projections.Outcome{Reason: events.Reason_REQ_NODE_NOT_AVAIL, Text: "UnavailableNodes:n1"}, old,
			"ReqNodeNotAvail, UnavailableNodes:n1|(ReqNodeNotAvail, UnavailableNodes:n1)"},
		{&projections.Job{State: events.JobState_PENDING}, nil, old, "None|(None)"},
	} {
		j := Job{Job: c.job, Outcome: c.outcome, Context: c.context, Task: -1}
		if got := SqueueFields.Get().letter('r').Value(j) + "|" + SqueueFields.Get().letter('R').Value(j); got != c.want {
			t.Errorf("%s: %s, want %s", c.job, got, c.want)
		}
	}
}

// Rows are sorted as one by one comparison says, by text and by number, whatever rows have in common; an empty list too.
func TestRowsAreCompared(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	c := testContext(slurm.Release2205)
	for range 300 {
		var kinds []*projections.Job
		for range 1 + rng.IntN(6) {
			k := &projections.Job{Partition: string(rune('a' + rng.IntN(3))), State: events.JobState_PENDING, Spec: &events.JobSpec{Name: string(rune('x' + rng.IntN(3)))}}
			if rng.IntN(2) == 0 {
				k.State, k.StartUs = events.JobState_RUNNING, int64(1+rng.IntN(3))*1e6
			}
			kinds = append(kinds, k)
		}
		rows := make([]Job, rng.IntN(40))
		for i := range rows {
			rows[i] = Job{Job: kinds[rng.IntN(len(kinds))], Context: c, Task: -1, own: &own{id: uint32(i + 1), priority: uint32(rng.IntN(4))}}
		}
		spec := []string{"P,t,-p", "S", "-S,j", "i", "-i", "N,P", "-N,-j,p", "j,-t"}[rng.IntN(8)]
		s, _, err := SqueueFields.Get().Sort(spec, JobSort(slurm.Release2605))
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]sortable, len(rows))
		for i := range rows {
			keys[i].index = i
			for n := range s.keys {
				s.keys[n].read(rows[i], &keys[i])
			}
		}
		slices.SortFunc(keys, func(a, b sortable) int { return s.compare(0, &a, &b) })
		sorted := slices.Clone(rows)
		s.Rows(sorted, JobsAlike)
		for i, k := range keys {
			if got, want := sorted[i].GetId(), rows[k.index].GetId(); got != want {
				t.Fatalf("seed %d, -S %s: in place %d of %d stands job %d, not %d", seed, spec, i, len(rows), got, want)
			}
		}
	}
}

// A line that takes over what it has in common with the one before is the line that a row has by itself, whatever the columns.
func TestLinesAreRows(t *testing.T) {
	rows := rowsOf(60)
	var kinds []Job
	for _, r := range rows {
		for i := range 3 {
			one := r
			one.own = &own{id: r.Job.GetId() + uint32(i), priority: uint32(i), submit: r.Job.GetSubmitUs() + int64(i)*1e6, eligible: r.Job.GetEligibleUs(), accrue: int64(i) * 1e6}
			kinds = append(kinds, one)
		}
	}
	for _, format := range []string{"%all", SqueueFormat, SqueueLongFormat, SqueueStartFormat, "x%j y%.5i%z|"} {
		l, _ := SqueueFields.Get().ByLetter(format)
		lines := l.Lines(JobsAlike)
		for i := range kinds {
			if got, want := string(lines.Next(&kinds[i])), l.Row(kinds[i])+"\n"; got != want {
				t.Fatalf("%s: the line is\n%sand the row by itself\n%s", format, got, want)
			}
		}
	}
	var names []string
	for _, f := range SqueueFields.Get() {
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	l, _ := SqueueFields.Get().ByName(strings.Join(names, ","))
	lines := l.Lines(JobsAlike)
	for i := range kinds {
		if got, want := string(lines.Next(&kinds[i])), l.Row(kinds[i])+"\n"; got != want {
			t.Fatalf("the line is\n%sand the row by itself\n%s", got, want)
		}
	}
}
