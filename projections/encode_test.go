package projections

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"stint/events"
)

// What is encoded row by row, and told once where it is shared, is the answer that Reply makes.
func TestEncodeIsReply(t *testing.T) {
	l := newLife(t, 4, 300)
	first := l.submit()
	l.submit()
	l.run(first)
	uid := uint32(1000)
	for _, q := range []*AskJobs{
		{Slim: true}, {Slim: true, AllStates: true}, {Slim: true, Users: []string{"alice"}}, {Slim: true, Users: []string{"1000"}, Associations: true},
		{Slim: true, Users: []string{"nobody"}}, {Slim: true, Ids: []uint32{first, first + 1, 999999}, AllStates: true}, {Slim: true, Nodes: "n["}, {},
	} {
		plain := Reply(l.c, nil, &Ask{Uid: &uid, What: &Ask_Jobs{Jobs: q}})
		shared := q.CloneVT()
		shared.Shared = true
		data, err := Encode(l.c, nil, &Ask{Uid: &uid, What: &Ask_Jobs{Jobs: shared}})
		if err != nil {
			t.Fatal(err)
		}
		if seq := SeqOf(data); seq != l.c.Seq() {
			t.Errorf("%v: the answer is current to %d, it says %d", q, l.c.Seq(), seq)
		}
		got := new(Answer)
		if err := got.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
		got.GetJobs().Unshare()
		if !got.EqualVT(plain) {
			t.Errorf("%v: the encoded answer has %d jobs and is another than that of %d", q, len(got.GetJobs().GetJobs()), len(plain.GetJobs().GetJobs()))
		}
	}
}

// Jobs told as kinds and rows of these are the jobs, but for sequences of the log; and jobs of one request are few words each.
func TestKindsAreJobs(t *testing.T) {
	l := newLife(t, 4, 300)
	first := l.submit()
	l.at += 5_000_000
	second := l.submit()
	l.run(first)
	l.facts(fact(&events.Held{Job: second + 1, Kind: events.HoldKind_HELD_USER}), fact(&events.Updated{Job: second + 2, Change: &events.UpdateJob{Priority: new(uint32(7))}}))
	uid := uint32(1000)
	for _, q := range []*AskJobs{{Slim: true}, {Slim: true, AllStates: true}, {Slim: true, Ids: []uint32{second + 3, first, second}, AllStates: true}, {Slim: true, Users: []string{"nobody"}}} {
		plain := Reply(l.c, nil, &Ask{Uid: &uid, What: &Ask_Jobs{Jobs: q}}).GetJobs()
		asked := q.CloneVT()
		asked.Shared, asked.Kinds = true, true
		data, err := Encode(l.c, nil, &Ask{Uid: &uid, What: &Ask_Jobs{Jobs: asked}})
		if err != nil {
			t.Fatal(err)
		}
		answer := new(Answer)
		if err := answer.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
		got := answer.GetJobs()
		got.Unshare()
		if len(got.Jobs) != 0 || got.Rows == nil {
			t.Fatalf("%v: %d jobs are not told as rows", q, len(got.Jobs))
		}
		i := 0
		got.Rows.Each(func(r JobRow) {
			v := got.Kinds[r.Kind].CloneVT()
			j := v.Job
			j.Id, j.Priority, j.SubmitUs, j.EligibleUs, j.AccrueUs = r.Id, r.Priority, r.SubmitUs, r.EligibleUs, r.AccrueUs
			want := plain.Jobs[i].CloneVT()
			want.Job.SubmittedSeq, want.Job.ChangedSeq, want.Job.PlacedSeq = 0, 0, 0
			if !v.EqualVT(want) {
				t.Fatalf("%v: row %d is\n%v, and the job\n%v", q, i, v, want)
			}
			i++
		})
		if i != len(plain.Jobs) || got.UnknownId != plain.UnknownId {
			t.Errorf("%v: %d of %d jobs are told", q, i, len(plain.Jobs))
		}
		if n := len(plain.Jobs); n == 300 && len(data) > 300*12+4000 {
			t.Errorf("%v: %d jobs in %d bytes", q, n, len(data))
		}
	}
}

// A question about one user's jobs goes through these alone, and finds what a look at all jobs finds, whatever was added and removed and
// shared with views in between.
func TestJobsOfAUser(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	c := New()
	have := map[uint32]*Job{}
	var views []*View
	var want []map[string][]uint32
	ids := func(of func(string, func(*Job) bool)) map[string][]uint32 {
		got := map[string][]uint32{}
		for _, user := range []string{"a", "b", "c"} {
			of(user, func(j *Job) bool { got[user] = append(got[user], j.Id); return true })
		}
		return got
	}
	byScan := func() map[string][]uint32 {
		return ids(func(user string, f func(*Job) bool) {
			c.EachJob(func(j *Job) bool { return j.Owner.User != user || !sought(j) || f(j) })
		})
	}
	for range 6000 {
		id := uint32(rng.IntN(3000) + 1)
		switch before := have[id]; {
		case before == nil:
			n := rng.IntN(3)
			j := &Job{Id: id, State: events.JobState_PENDING, Owner: &events.Owner{Uid: uint32(n), User: string(rune('a' + n))}}
			c.putJob(nil, j)
			have[id] = j
		case sought(before):
			j := before.copy()
			j.State = events.JobState_COMPLETED
			c.putJob(before, j)
			have[id] = j
		default:
			c.putJob(before, nil)
			delete(have, id)
		}
		if rng.IntN(300) == 0 {
			views, want = append(views, c.View()), append(want, byScan())
		}
	}
	views, want = append(views, c.View()), append(want, byScan())
	for i, v := range views {
		got := ids(func(user string, f func(*Job) bool) { v.EachOf([]string{user}, f) })
		for user, list := range want[i] {
			if !slices.Equal(got[user], list) {
				t.Errorf("view %d has %d jobs of %s, want %d", i, len(got[user]), user, len(list))
			}
		}
	}
}

// Jobs of a loop cost a record each and little more: their requests are one.
func TestWaitingJobsAreSmall(t *testing.T) {
	size := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	l := newLife(t, 4, 2000)
	before := size()
	const jobs = 10_000
	for range jobs / l.wave {
		l.submit()
		l.log = nil
	}
	each := (size() - before) / jobs
	if each > 900 {
		t.Errorf("a job that waits takes %d bytes, want 900 at most", each)
	}
	runtime.KeepAlive(l)
}

func BenchmarkEncodeJobs(b *testing.B) {
	l := newLife(b, 4, 2000)
	for range 5 {
		l.submit()
	}
	v := l.c.View()
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("10000 jobs, shared %v", shared), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				data, err := Encode(v, nil, &Ask{What: &Ask_Jobs{Jobs: &AskJobs{Slim: true, Shared: shared}}})
				if err != nil {
					b.Fatal(err)
				}
				n = len(data)
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}
