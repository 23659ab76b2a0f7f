package scheduler

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"stint/events"
	"stint/ledger"
	"stint/projections"
	"stint/scheduler/feed"
	"stint/scheduler/sim"
)

// month is a cluster that works through days of simulated time, with a follower that writes real snapshots and a real ledger behind it.
type month struct {
	t     *testing.T
	s     *sim.Script
	state *projections.Cluster
	snaps *snapshots
	l     *ledger.Ledger
	dir   string
	read  int
	bytes int // of the log
	jobs  int
}

// measured is what must stay as it is, and what may grow with the jobs that were.
type measured struct {
	heap, snapshot, files, fds int
	tables                     int            // open files that are tables of the ledger
	parts                      map[string]int // bytes of the snapshot's parts
	ledger, log, jobs          int
}

// TestMonth has jobs of all kinds come and go for days (two; with STINT_SOAK a month, 100,000 jobs): what a controller and a
// ledger hold in memory, their snapshots and open files stay as they are. What grows is the log, and the ledger's tables.
func TestMonth(t *testing.T) {
	days, perDay := 2, 900
	if os.Getenv("STINT_SOAK") != "" {
		days, perDay = 30, 3400
	}
	m := &month{t: t, s: sim.NewScript(sim.Options{MinDelay: sim.Millisecond}), state: projections.New(), dir: t.TempDir()}
	m.snaps = &snapshots{dir: filepath.Join(m.dir, "snapshots"), every: 500, log: slog.New(slog.DiscardHandler)}
	m.open()
	m.run("config min_job_age=300 kill_wait=5 crontabs=yes licenses=matlab:4\nnodes n[1-8] cpus=16 gpus=a100:2\npartition batch default\nstart\nzone 3600")
	// Verdicts are remembered by number, so that takes thousands of wishes before it is full.
	for range 17_000 {
		m.s.World.Intent(&events.Author{Uid: 1000, User: "u1000", Host: "login"}, events.Verb_CANCEL, &events.Cancel{Targets: []*events.Target{{Job: 1}}})
	}
	for i := range 10 { // transactions and names that are gone are kept by the thousand
		var names []string
		for k := range 100 {
			names = append(names, fmt.Sprintf("before%d-%d", i, k))
		}
		m.policy(names...)
	}
	m.run("advance 1m\ntrigger down perm\ncrontab */10 * * * * tick run=20 user=1000")
	var first measured
	for half := range 2 * days {
		m.halfDay(half, perDay/2)
		got := m.measure()
		t.Logf("day %4.1f: %6d jobs, heap %5d KiB, snapshot %5d bytes in %d files, %d open files, %d of them tables; log %d, ledger %d bytes a job", float64(half+1)/2, got.jobs, got.heap>>10, got.snapshot, got.files, got.fds, got.tables, got.log/got.jobs, got.ledger/got.jobs)
		if half == 1 || m.jobs < 40_000 && days > 2 { // verdicts on submissions take the place of those on the wishes at the beginning, and their ids come to have three bytes
			first = got
		}
	}
	last := m.measure()
	for _, name := range slices.Sorted(maps.Keys(last.parts)) {
		t.Logf("of the snapshot: %-12s %7d bytes, %+d since day %.1f", name, last.parts[name], last.parts[name]-first.parts[name], float64(first.jobs)/float64(perDay))
	}
	if float64(last.heap) > 1.25*float64(first.heap)+float64(1<<20) {
		t.Errorf("the heap grew from %d to %d bytes", first.heap, last.heap)
	}
	if float64(last.snapshot) > 1.1*float64(first.snapshot)+4096 { // ids and times are written in more bytes as they grow
		t.Errorf("the snapshot grew from %d to %d bytes", first.snapshot, last.snapshot)
	}
	if last.files > snapKeep+1 || last.fds-last.tables > first.fds-first.tables+2 {
		t.Errorf("%d files of snapshots, %d open files beside the ledger's tables, and there were %d", last.files, last.fds-last.tables, first.fds-first.tables)
	}
	if each := last.ledger / last.jobs; each > 4096 {
		t.Errorf("the ledger keeps %d bytes a job", each)
	}
	if err := m.l.Close(); err != nil {
		t.Fatal(err)
	}
	// Who starts from the last snapshot has the same state.
	m.snaps.saveNow(m.state, feed.Rest{})
	again, _ := m.snaps.load(m.state.Seq(), func(feed.Rest) bool { return true })
	if again == nil || again.Hash() != m.state.Hash() || m.state.Hash() != m.s.World.Fold.Hash() {
		t.Error("the last snapshot is of another state")
	}
}

func (m *month) run(lines string) {
	if out := m.s.Run(lines); out != "" {
		m.t.Fatalf("%s\n%s", lines, out)
	}
}

func (m *month) open() {
	l, err := ledger.Open(filepath.Join(m.dir, "ledger"), ledger.Options{MinFreeBytes: 1, CacheBytes: 4 << 20})
	if err != nil {
		m.t.Fatal(err)
	}
	m.l = l
}

// halfDay is so many jobs of all kinds in twelve hours, with everything that happens to a cluster meanwhile.
func (m *month) halfDay(n, jobs int) {
	kinds := []string{"a run=60", "b run=300 n=4", "c run=30 gres=gpu:a100:1", "d N=2 run=600 trap=3", "e a=0-4%2 run=90", "f run=20 exit=3", "g run=100000 t=5", "h run=40 lic=matlab:2",
		"i run=60 begin=90s", "j run=50 dep=singleton", "k run=60 N=2 : l run=30", "m alloc run=0 t=2", "o unstartable", "p run=70 oom"}
	gap := 12 * 3600 / jobs
	for i := range jobs {
		kind := kinds[(i+n)%len(kinds)]
		m.run(fmt.Sprintf("submit %s user=%d", kind, 1000+i%7))
		if i%40 == 7 {
			id := m.s.World.Fold.NextID() - 1
			m.s.Run(fmt.Sprintf("cancel %d user=0\nhold %d user=0\nrequeue %d user=0\nnotify %d hello", id, id-1, id-2, id-3))
		}
		if i%100 == 50 {
			m.s.Run(fmt.Sprintf("release %d user=0\nstep %d.0\nadvance 1s\nstep %d.0 over", m.s.World.Fold.NextID()-2, m.s.World.Fold.NextID()-1, m.s.World.Fold.NextID()-1))
		}
		if i%150 == 60 {
			m.s.Run("node n3 down fan\nadvance 1m\nnode n3 resume\ncreate night nodes=n[1-2]\nadvance 10s\ndelete night\ncrash n5\nadvance 2m\nrestart n5\nkill n6\nadvance 5s\nrestart n6\ndepose")
			m.policy(fmt.Sprintf("project%d-%d", n, i))
			m.s.Run(fmt.Sprintf("crontab user=1001 */30 * * * * run%d run=5\nadvance 1s\ncrontab user=1001\ntrigger down\ntrigger fini job=%d\nloglevel info", i, m.s.World.Fold.NextID()-1))
		}
		m.run(fmt.Sprintf("advance %ds", gap))
		if i%20 == 0 {
			m.follow()
		}
	}
	m.s.Run("advance 1h")
	var held []*events.Target // what waits for ever is somebody's wish, not time's
	m.s.World.Fold.EachPending(func(j *projections.Job) bool {
		if j.Spec.GetCron() == nil {
			held = append(held, &events.Target{Job: j.Id})
		}
		return true
	})
	m.s.World.Intent(&events.Author{Uid: 0, User: "root", Host: "login"}, events.Verb_CANCEL, &events.Cancel{Targets: held})
	m.run("advance 10m")
	m.jobs += jobs
	m.follow()
	if err := m.l.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.open()
}

// policy makes accounts and takes them away again.
func (m *month) policy(names ...string) {
	for _, deed := range []events.PolicyDeed{events.PolicyDeed_POLICY_ADD, events.PolicyDeed_POLICY_DELETE} {
		act := &events.PolicyAct{Deed: deed, Kind: events.PolicyKind_POLICY_ACCOUNT, Names: names}
		m.s.World.Intent(&events.Author{Uid: 0, User: "root", Host: "login"}, events.Verb_ADMINISTER, &events.Policy{Acts: []*events.PolicyAct{act}})
		m.run("advance 1s")
	}
}

// follow folds what is new, as a controller and a ledger do.
func (m *month) follow() {
	log := m.s.World.Log()
	for ; m.read < len(log); m.read++ {
		one := log[m.read]
		e := events.Decode(one.Seq, one.At, one.Subject, one.Data)
		m.bytes += len(one.Data) + len(one.Subject)
		m.state.Apply(e)
		m.snaps.maybe(m.state, func() feed.Rest { return feed.Rest{} })
		if err := m.l.Apply(e); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := m.l.Commit(false); err != nil {
		m.t.Fatal(err)
	}
	m.snaps.wait()
	m.s.World.Forget()
}

func (m *month) measure() measured {
	data, err := m.state.Snapshot().MarshalVT()
	if err != nil {
		m.t.Fatal(err)
	}
	size := len(data)
	parts := map[string]int{}
	all := reflect.ValueOf(m.state.Snapshot()).Elem()
	for i := range all.NumField() {
		if f := all.Type().Field(i); f.IsExported() {
			one := new(projections.Snapshot)
			reflect.ValueOf(one).Elem().Field(i).Set(all.Field(i))
			parts[f.Name] = one.SizeVT()
		}
	}
	data = nil
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	got := measured{heap: int(mem.HeapAlloc) - cap(m.s.World.Log())*int(unsafe.Sizeof(sim.Message{})), snapshot: size, parts: parts, log: m.bytes, jobs: m.jobs}
	files, _ := os.ReadDir(m.snaps.dir)
	got.files = len(files)
	fds, _ := os.ReadDir("/proc/self/fd")
	got.fds = len(fds)
	for _, fd := range fds {
		if at, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasSuffix(at, ".sst") {
			got.tables++
		}
	}
	filepath.WalkDir(filepath.Join(m.dir, "ledger"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				got.ledger += int(info.Size())
			}
		}
		return nil
	})
	return got
}
