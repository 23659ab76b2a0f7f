package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/events/bus"
	"stint/events/bus/jet"
	busserver "stint/events/bus/server"
)

// The power goes while a cluster works: of each file there is what was synced, and of what was written since then some, none, or
// something else. Every message is synced before it is acknowledged (SyncAlways), so the log may be cut at any byte, and
// what lies whole before the cut must be there when the bus has started again, unchanged and at its sequence; nothing else
// may be there in its place. The files beside the blocks of messages, which say the same in short, are gone, old, cut or ahead of
// them. The whole cluster then starts on such folders: what accounting, the feed, snapshots and journals had not synced is lost
// too, and all that was acknowledged is there once.
//
// STINT_SEED=N is one cut, N-M those from N to M; STINT_SOAK=1 makes two thousand, and counts what they were.
func TestPowerLoss(t *testing.T) {
	cuts := uint64(40)
	if os.Getenv("STINT_SOAK") != "" {
		cuts = 2000
	}
	c := start(t, "--split", "--nodes", "n[1-2]", "--cpus", "8", "--memory", "4000")
	old := t.TempDir() // what index files said at first
	copyTree(t, filepath.Join(c.dir, "bus"), old)
	var ids []string
	c.script("job.sh", "#!/bin/sh\necho \"$SLURM_JOB_ID\" >> ran\nexit 3\n")
	for range 3 {
		ids = append(ids, c.submit("-o", "/dev/null", "job.sh"), c.submit("-o", "/dev/null", "--array=0-2", "job.sh"))
	}
	c.eventually("they are over", func() bool { return c.try("squeue", "-h").out == "" })
	c.do("stint", "down")        // it leaves a snapshot, which takes for told what the feed may lose yet
	synced := map[string]int64{} // what a server that was stopped had written down as whole, in index.db too
	for _, stream := range []string{"EVENTS", "BLOBS"} {
		info, err := os.Stat(lastBlock(t, filepath.Join(c.dir, "bus"), stream))
		if err != nil {
			t.Fatal(err)
		}
		synced[stream] = info.Size()
	}
	c.up("--split")
	for range 9 {
		ids = append(ids, c.submit("-o", "/dev/null", "job.sh"), c.submit("-o", "/dev/null", "--array=0-2", "job.sh"))
	}
	c.eventually("some more have run", func() bool { return strings.Count(c.try("squeue", "-h", "-t", "F").out, "\n") > 20 })
	for name, pid := range c.processes() { // all at once, as the machine would
		_ = name
		syscall.Kill(pid, syscall.SIGKILL)
	}
	time.Sleep(100 * time.Millisecond)

	first, last := uint64(1), cuts
	if v := os.Getenv("STINT_SEED"); v != "" {
		if _, err := fmt.Sscanf(v, "%d-%d", &first, &last); err != nil {
			last = first
		}
	}
	counts := map[string]int{}
	for seed := first; seed <= last; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		dir := filepath.Join(t.TempDir(), "bus")
		copyTree(t, filepath.Join(c.dir, "bus"), dir)
		var said []string
		kept := map[string]map[uint64]record{}
		for _, stream := range []string{"EVENTS", "BLOBS"} {
			kept[stream] = spoil(t, r, dir, old, stream, synced[stream], &said)
		}
		if err := holds(t, dir, filepath.Join(c.dir, "keys"), kept); err != nil {
			t.Errorf("STINT_SEED=%d: %s: %v", seed, strings.Join(said, ", "), err)
		}
		for _, what := range said {
			_, what, _ = strings.Cut(what, "then ")
			counts[what]++
		}
		os.RemoveAll(dir)
	}

	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("cuts %d to %d: %5d × %s", first, last, counts[what], what)
	}
	for _, seed := range []uint64{first, first + 1} {
		t.Run(fmt.Sprintf("whole %d", seed), func(t *testing.T) { powerBack(t, c, seed, ids) })
	}
}

// powerBack starts the whole cluster on a copy of what c left, in which all that was not synced is lost, and holds it to what was
// acknowledged.
func powerBack(t *testing.T, c *cluster, seed uint64, ids []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	d := planned(t)
	copyTree(t, c.dir, d.dir)
	d.work = c.work
	for _, name := range []string{"up.lock", "up.json"} {
		os.Remove(filepath.Join(d.dir, name))
	}
	var said []string
	for _, stream := range []string{"EVENTS", "BLOBS"} { // behind what was synced there may be anything
		if f := lastBlock(t, filepath.Join(d.dir, "bus"), stream); f != "" {
			data, _ := os.ReadFile(f)
			os.WriteFile(f, append(data, trash(r, r.IntN(3000))...), 0o600)
		}
	}
	for _, stream := range []string{"JOBS", "USAGE"} { // acknowledged before they are on disk: they can be derived again, or are measurements
		if f := lastBlock(t, filepath.Join(d.dir, "bus"), stream); f != "" {
			info, _ := os.Stat(f)
			os.Truncate(f, r.Int64N(info.Size()/4+1)) // before what the snapshot takes for told
			os.Remove(filepath.Join(filepath.Dir(f), "index.db"))
			said = append(said, stream+" cut")
		}
	}
	snapshots, _ := filepath.Glob(filepath.Join(d.dir, "controller", "*"))
	for _, f := range snapshots {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && seed%2 == 0 {
			os.Truncate(f, r.Int64N(info.Size()+1))
			said = append(said, "a snapshot cut")
		}
	}
	journals, _ := filepath.Glob(filepath.Join(d.dir, "node", "*", "journal"))
	for _, f := range journals {
		data, _ := os.ReadFile(f)
		os.WriteFile(f, append(data, trash(r, 1+r.IntN(200))...), 0o600)
	}
	if seed%2 == 0 {
		os.RemoveAll(filepath.Join(d.dir, "ledger"))
		os.Mkdir(filepath.Join(d.dir, "ledger"), 0o700)
		said = append(said, "no tables of accounting")
	} else if logs, _ := filepath.Glob(filepath.Join(d.dir, "ledger", "*.log")); len(logs) > 0 {
		slices.Sort(logs)
		f := logs[len(logs)-1]
		info, _ := os.Stat(f)
		os.Truncate(f, r.Int64N(info.Size()+1))
		said = append(said, "the ledger's own log cut")
	}
	t.Logf("STINT_SEED=%d: %s", seed, strings.Join(said, ", "))
	d.up("--split")
	d.eventually("all jobs are over", func() bool { q := d.try("squeue", "-h"); return q.code == 0 && q.out == "" })
	k := &campaign{cluster: d}
	d.eventually("accounting has read all", k.quiet)
	jobs, _ := k.rows("now-1day")
	states, of := map[string]string{}, map[string]int{}
	for _, j := range jobs {
		if states[j.id] != "" {
			t.Errorf("job %s is in accounting twice", j.id)
		}
		states[j.id] = j.state
		base, _, _ := strings.Cut(j.id, "_")
		of[base]++
		if !final(j.state) || j.state == "COMPLETED" {
			t.Errorf("job %s, whose script exits with 3, is %s", j.id, j.state)
		}
	}
	for i, id := range ids {
		if want := 1 + 2*(i%2); of[id] != want {
			t.Errorf("job %s was acknowledged, and accounting has %d of %d tasks", id, of[id], want)
		}
	}
	id := d.submit("-o", "/dev/null", "--wrap", "exit 9")
	if got := exitCode(d, id); got != "FAILED|9:0" || slices.Contains(ids, id) {
		t.Errorf("a job after it is %s, and ends as %s", id, got)
	}
	states[id] = "FAILED"
	d.compareFeed(states)
	k.verify()
}

// record is a message as it lies in a block: where it ends.
type record struct {
	end     int64
	subject string
	data    []byte // header and text
}

// blocks are the files of a stream's messages, in order.
func blocks(t *testing.T, dir, stream string) (files []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") && strings.Contains(path, "/"+stream+"/msgs/") {
			files = append(files, path)
		}
		return nil
	})
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	return files
}

func lastBlock(t *testing.T, dir, stream string) string {
	if list := blocks(t, dir, stream); len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

// records reads a block: each message is its length (32 bits, of which the highest two are flags), its sequence and its time
// (64 each), the length of the subject (16), subject, header and text, and a sum (64).
func records(data []byte) map[uint64]record {
	out := map[uint64]record{}
	for at := int64(0); at+22 <= int64(len(data)); {
		n := int64(binary.LittleEndian.Uint32(data[at:]) & 0x3fffffff)
		seq := binary.LittleEndian.Uint64(data[at+4:])
		if n < 30 || at+n > int64(len(data)) {
			break
		}
		subject := at + 22 + int64(binary.LittleEndian.Uint16(data[at+20:]))
		if subject > at+n-8 {
			break
		}
		if seq>>62 == 0 {
			out[seq] = record{at + n, string(data[at+22 : subject]), data[subject : at+n-8]}
		}
		at += n
	}
	return out
}

// spoil cuts the last block of a stream at any byte behind from, has something else behind the cut, and does to the files beside it what
// may become of them. It returns what must be there still.
func spoil(t *testing.T, r *rand.Rand, dir, old, stream string, from int64, said *[]string) map[uint64]record {
	t.Helper()
	f := lastBlock(t, dir, stream)
	data, err := os.ReadFile(f)
	if err != nil {
		t.Fatal(err)
	}
	whole := records(data)
	if len(whole) == 0 {
		t.Fatalf("%s: no message was found in %d bytes", f, len(data))
	}
	cut := from + r.Int64N(int64(len(data))-from+1)
	kept := maps.Clone(whole)
	maps.DeleteFunc(kept, func(_ uint64, m record) bool { return m.end > cut })
	spoiled := bytes.Clone(data[:cut])
	tail := []string{"cut", "zeros", "garbage", "flipped", "headers of another length"}[r.IntN(5)]
	switch tail {
	case "zeros":
		spoiled = append(spoiled, make([]byte, r.IntN(5000))...)
	case "garbage":
		spoiled = append(spoiled, trash(r, r.IntN(5000))...)
	case "flipped":
		spoiled = append(spoiled, data[cut:]...)
		if rest := int64(len(spoiled)) - cut; rest > 0 {
			spoiled[cut+r.Int64N(rest)] ^= 1 << r.IntN(8)
		}
	case "headers of another length": // which no sum of the server's covers
		spoiled = append(spoiled, data[cut:]...)
		for _, seq := range slices.Sorted(maps.Keys(whole)) {
			if m := whole[seq]; m.end-8-int64(len(m.data)) >= cut {
				spoiled[m.end-8-int64(len(m.data))+r.Int64N(4)] ^= 1 << r.IntN(8)
				break
			}
		}
	}
	if err := os.WriteFile(f, spoiled, 0o600); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(filepath.Dir(f), "index.db")
	what := []string{"as it was", "gone", "old", "cut", "empty", "garbage"}[r.IntN(6)]
	info, err := os.Stat(index)
	if err != nil {
		what = "never there"
	}
	switch what {
	case "gone":
		os.Remove(index)
	case "old":
		rel, _ := filepath.Rel(dir, index)
		if was, err := os.ReadFile(filepath.Join(old, rel)); err == nil {
			os.WriteFile(index, was, 0o600)
		} else {
			os.Remove(index)
		}
	case "cut":
		os.Truncate(index, r.Int64N(info.Size()+1))
	case "empty":
		os.Truncate(index, 0)
	case "garbage":
		os.WriteFile(index, trash(r, int(info.Size())), 0o600)
	}
	*said = append(*said, fmt.Sprintf("%s at %d of %d bytes (%d of %d messages), then %s, index %s", stream, cut, len(data), len(kept), len(whole), tail, what))
	return kept
}

func trash(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// holds starts a bus on a folder, and says what of the messages is not there, or otherwise.
func holds(t *testing.T, dir, keyDir string, kept map[string]map[uint64]record) error {
	keys, err := busserver.OpenKeys(keyDir)
	if err != nil {
		return err
	}
	s, err := busserver.Start(busserver.Options{Dir: dir, Keys: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Stop()
	seed, err := busserver.ReadSeed(keys.Path(bus.Role{Kind: bus.Admin}))
	if err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(context.Background(), 10*patience) // hundreds of questions, on a machine that may have others to serve
	defer cancel()
	ctx, cancel := context.WithTimeout(whole, patience)
	defer cancel()
	b, err := jet.Connect(ctx, jet.Options{URL: s.URL(), Server: s, Role: bus.Role{Kind: bus.Admin}, Seed: seed, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer b.Close()
	get := func(seq uint64) (bus.Message, error) {
		ctx, cancel := context.WithTimeout(whole, patience)
		defer cancel()
		return b.Events().Get(ctx, seq)
	}
	ctx = whole
	for _, seq := range slices.Sorted(maps.Keys(kept["EVENTS"])) {
		m, err := get(seq)
		if err != nil {
			return fmt.Errorf("message %d, which was synced: %w", seq, err)
		}
		if want := kept["EVENTS"][seq]; want.subject != m.Subject || !bytes.HasSuffix(want.data, m.Data) || len(m.Data) == 0 {
			return fmt.Errorf("message %d is another one: %q", seq, m.Data)
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(kept["BLOBS"])) {
		want := kept["BLOBS"][seq]
		if _, after, is := bytes.Cut(want.data, []byte("\r\n\r\n")); is && strings.Count(want.subject, ".") == 2 {
			got, err := b.Blobs().Get(ctx, bus.RefTo(want.subject, 0, after))
			if err != nil || !bytes.Equal(got, after) {
				return fmt.Errorf("blob %s, which was synced: %d bytes, %w", want.subject, len(got), err)
			}
		}
	}
	_, last, err := b.Events().Bounds(ctx)
	if err != nil {
		return err
	}
	for seq := uint64(1); seq <= last; seq++ {
		if _, err := get(seq); err != nil {
			return fmt.Errorf("message %d of %d: %w", seq, last, err)
		}
	}
	seq, err := b.Events().Publish(ctx, "ev.intent.@after", "after", []byte("x"))
	if err != nil || seq != last+1 {
		return errors.Join(fmt.Errorf("behind %d the next message is %d", last, seq), err)
	}
	return nil
}

// copyTree copies a folder, sockets apart.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(target, info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			where, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(where, target)
		case !info.Mode().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}
