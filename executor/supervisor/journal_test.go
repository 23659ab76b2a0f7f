package supervisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// life is the journal of a few steps, record by record.
func life() []*Record {
	k := func(job uint64) *Key { return &Key{Job: job, Step: StepBatch} }
	return []*Record{
		{What: &Record_Header{&Header{BootId: "boot", Format: journalFormat}}},
		{What: &Record_Launching{&Launching{Key: k(1), Node: "n1", TimeLimitMs: 1000}}},
		{What: &Record_Birth{&Birth{Key: k(1), Pid: 77, StartTicks: 5, StartedMonoNs: 6}}},
		{What: &Record_Launching{&Launching{Key: k(2), Node: "n1"}}},
		{What: &Record_Deadline{&Deadline{Key: k(1), AtMonoNs: 99, Cause: Cause_CANCELLED}}},
		{What: &Record_Exited{&Exited{Key: k(1), Code: 3, Provisional: true}}},
		{What: &Record_Exited{&Exited{Key: k(1), Code: 3}}},
		{What: &Record_Tombstone{&Tombstone{Key: k(1), AcknowledgedUnixNs: 8}}},
		{What: &Record_Exited{&Exited{Key: k(2), End: End_NOT_LAUNCHED, Failure: Failure_EXEC}}},
	}
}

// A journal cut at any byte gives the records that are whole, in order, and can be appended to.
func TestJournalTornAnywhere(t *testing.T) {
	var b []byte
	var ends []int
	for _, r := range life() {
		b = appendFrame(b, r)
		ends = append(ends, len(b))
	}
	dir := t.TempDir()
	path := filepath.Join(dir, journalFileName)
	for cut := range len(b) + 1 {
		if err := os.WriteFile(path, b[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		var got []*Record
		j, torn, err := openJournal(dir, func(r *Record) { got = append(got, r) })
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(got) != whole {
			t.Fatalf("cut at %d: %d records, want %d", cut, len(got), whole)
		}
		at := 0
		if whole > 0 {
			at = ends[whole-1]
		}
		if torn != cut-at {
			t.Fatalf("cut at %d: %d bytes torn, want %d", cut, torn, cut-at)
		}
		more := &Record{What: &Record_Tombstone{&Tombstone{Key: &Key{Job: 9}}}}
		if err := j.append(synced, more); err != nil {
			t.Fatal(err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		got = nil
		j, torn, err = openJournal(dir, func(r *Record) { got = append(got, r) })
		if err != nil || torn != 0 || len(got) != whole+1 || !got[whole].EqualVT(more) {
			t.Fatalf("cut at %d, after an append: %d records, %d torn, %v", cut, len(got), torn, err)
		}
		for i, r := range got[:whole] {
			if !r.EqualVT(life()[i]) {
				t.Fatalf("cut at %d: record %d is %v", cut, i, r)
			}
		}
		j.close()
	}
}

// One damaged byte loses the record it is in and what follows, never more, and invents nothing.
func TestJournalDamagedAnywhere(t *testing.T) {
	var b []byte
	var ends []int
	for _, r := range life() {
		b = appendFrame(b, r)
		ends = append(ends, len(b))
	}
	for at := range b {
		c := bytes.Clone(b)
		c[at] ^= 0x41
		before := 0
		for ends[before] <= at {
			before++
		}
		n := 0
		readFrames(c, func(r *Record) {
			if n < len(ends) && !r.EqualVT(life()[n]) {
				t.Fatalf("byte %d: record %d reads %v", at, n, r)
			}
			n++
		})
		if n != before {
			t.Fatalf("byte %d: %d records, want %d", at, n, before)
		}
	}
}

func FuzzReadFrames(f *testing.F) {
	var b []byte
	for _, r := range life() {
		b = appendFrame(b, r)
		f.Add(bytes.Clone(b))
	}
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		n := readFrames(b, func(r *Record) { again = appendFrame(again, r) })
		if n < 0 || n > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		if m := readFrames(again, func(*Record) {}); m != len(again) {
			t.Fatalf("what was read reads back %d of %d bytes", m, len(again))
		}
	})
}

// What is in memory and what the journal says of it are the same, before and after it is compacted.
func TestCompactionKeepsEverything(t *testing.T) {
	read := func(dir string) *supervisor {
		s := &supervisor{conf: Config{CompactFrom: 1}, live: map[id]*step{}, ended: map[id]*Exited{}, tombs: map[id]int64{}}
		j, _, err := openJournal(dir, s.remember)
		if err != nil {
			t.Fatal(err)
		}
		s.journal = j
		return s
	}
	all := life()
	for n := range len(all) + 1 {
		dir := t.TempDir()
		s := read(dir)
		if n > 0 {
			if err := s.journal.append(synced, all[:n]...); err != nil {
				t.Fatal(err)
			}
		}
		s.journal.close()
		s = read(dir)
		if err := s.compactNow(); err != nil {
			t.Fatal(err)
		}
		s.journal.close()
		after := read(dir)
		after.journal.close()
		if len(after.live) != len(s.live) || len(after.ended) != len(s.ended) || len(after.tombs) != len(s.tombs) {
			t.Fatalf("after %d records: %d live, %d ended, %d acknowledged become %d, %d, %d", n,
				len(s.live), len(s.ended), len(s.tombs), len(after.live), len(after.ended), len(after.tombs))
		}
		for k, st := range s.live {
			a := after.live[k]
			if a == nil || !a.launching.EqualVT(st.launching) || !a.birth.EqualVT(st.birth) || a.status.GetCode() != st.status.GetCode() ||
				st.birth != nil && !a.order.EqualVT(st.order) {
				t.Fatalf("after %d records: %+v became %+v", n, st, a)
			}
		}
		for k, x := range s.ended {
			if !after.ended[k].EqualVT(x) {
				t.Fatalf("after %d records: %v became %v", n, x, after.ended[k])
			}
		}
	}
}

// The journal does not grow with the number of steps that were; what it holds is there after any kill.
func TestJournalStaysShort(t *testing.T) {
	r := newRig(t, func(r *rig) { r.conf.CompactFrom, r.conf.TombstoneAge = 8_000, time.Second })
	ctx := context.Background()
	keep := r.script("sleep 1000")
	started := r.launch(keep)
	unheard := r.script("exit 8")
	r.launch(unheard)
	longest, shrank, last := int64(0), 0, int64(0)
	for n := 0; shrank < 2; n++ {
		if n > 3000 {
			t.Fatalf("the journal was written anew %d times in %d launches", shrank, n)
		}
		l := r.script("exit 0")
		r.launch(l)
		r.exit(l.Key)
		if err := r.client.Acknowledge(ctx, l.Key); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(r.conf.StateDir, journalFileName))
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, st.Size())
		if st.Size() < last {
			shrank++
		}
		last = st.Size()
	}
	t.Logf("at most %d bytes", longest)
	if longest > 1<<20 {
		t.Errorf("it grew to %d bytes", longest)
	}
	r.kill()
	r.start()
	if x := r.exit(unheard.Key); x.Code != 8 {
		t.Errorf("%v", x)
	}
	list, err := r.client.List(ctx)
	if err != nil || len(list.Running) != 1 || list.Running[0].Started.Pid != started.Pid {
		t.Errorf("%v %v", list, err)
	}
}

// When the disk is full, launches are refused, and the ends of what runs are still written.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	r := newRig(t, func(r *rig) {
		r.conf.StateDir = filepath.Join(dir, "state")
		r.conf.Spool = filepath.Join(r.dir, "..", "spool")
	})
	fifo := filepath.Join(r.dir, "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l := r.script("read x < go; exit 5")
	r.launch(l)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for chunk := make([]byte, 4096); ; {
		if _, err := filler.Write(chunk); err != nil {
			break
		}
	}
	refused := false
	for range 2000 {
		k := r.script("exit 0")
		a := r.try(k)
		if a.Failure == Failure_JOURNAL {
			refused = true
			if !strings.HasPrefix(a.Detail, "journal: no space left on device") {
				t.Errorf("it says %q", a.Detail)
			}
			break
		}
		r.exit(k.Key)
	}
	if !refused {
		t.Error("launches went on although the disk is full")
	}
	if err := os.WriteFile(fifo, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if x := r.exit(l.Key); x.Code != 5 {
		t.Errorf("end of what ran: %v", x)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	filler.Truncate(0)
	if x, _ := r.run(r.script("exit 6")); x.Code != 6 {
		t.Errorf("when there is room again: %v", x)
	}
}

// A script that does not fit fails with its cause, and the node goes on.
func TestFullSpool(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	r := newRig(t, func(r *rig) { r.conf.Spool = filepath.Join(dir, "spool") })
	big := r.script("exit 0")
	big.Script = append(big.Script, bytes.Repeat([]byte("# filler\n"), 10<<10)...)
	if a := r.try(big); a.Failure != Failure_SPOOL || !strings.HasPrefix(a.Detail, "spool: no space left on device (write "+dir) {
		t.Errorf("%v %s", a.Failure, a.Detail)
	}
	if x := r.exit(big.Key); x.End != End_NOT_LAUNCHED || x.Failure != Failure_SPOOL {
		t.Errorf("reported as %v", x)
	}
	if x, _ := r.run(r.script("exit 3")); x.Code != 3 {
		t.Errorf("the next one: %v", x)
	}
}
