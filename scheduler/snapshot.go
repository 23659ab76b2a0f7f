package scheduler

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"stint/events"
	"stint/projections"
	"stint/scheduler/feed"
)

// snapshots are files of this controller alone: the fold at some sequence, and the job states that were not known to be
// in the feed then. They spare time at a start and mean nothing else.
//
//	magic, sequence and index of the feed's last entry, count of job states, each (sequence, index, subject, data), the fold's snapshot (projections.Pack), SHA-256 of all before
//
// Numbers and lengths are varints. A file that is damaged, of another format, ahead of the log, or of the feed, is passed over.
type snapshots struct {
	dir   string
	every uint64
	log   *slog.Logger

	saved uint64 // sequence of the last one begun
	work  int    // intents and facts folded since
	busy  sync.WaitGroup
	mu    sync.Mutex // held while one is being written
}

const (
	snapMagic = "stint snapshot 3\n"
	snapKeep  = 2
)

// snapWork is how many intents and facts are folded before a snapshot is taken, whatever the number of messages: what a start has to fold
// again stays under a tenth of a second. Where many jobs are hot, it is half their number, so that writing them costs less than folding did.
const snapWork = 20_000

// count notes a message that was folded.
func (s *snapshots) count(e *events.Event) {
	s.work += 1 + len(e.Intents.GetIntents()) + len(e.Sched.GetCycle().GetFacts()) + len(e.Node.GetFacts())
}

// maybe begins a snapshot if enough was folded since the last.
func (s *snapshots) maybe(c *projections.Cluster, rest func() feed.Rest) {
	if s.dir == "" || c.Seq() < s.saved+s.every && s.work < max(snapWork, c.Counts().Jobs/2) || !s.mu.TryLock() {
		return
	}
	s.saved, s.work = c.Seq(), 0
	snap, queue := c.Snapshot(), rest()
	s.busy.Go(func() {
		defer s.mu.Unlock()
		s.write(snap, queue)
	})
}

// saveNow writes one before the process ends.
func (s *snapshots) saveNow(c *projections.Cluster, rest feed.Rest) {
	if s.dir == "" || c.Seq() == s.saved {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = c.Seq()
	s.write(c.Snapshot(), rest)
}

func (s *snapshots) wait() { s.busy.Wait() }

func (s *snapshots) name(seq uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("snapshot-%020d", seq))
}

func (s *snapshots) write(snap *projections.Snapshot, rest feed.Rest) {
	if err := s.put(snap, rest); err != nil {
		s.log.Warn("writing a snapshot", "seq", snap.Seq, "error", err)
		return
	}
	old, err := s.list()
	if err != nil {
		return
	}
	for _, seq := range old[min(snapKeep, len(old)):] {
		os.Remove(s.name(seq))
	}
}

func (s *snapshots) put(snap *projections.Snapshot, rest feed.Rest) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	data := binary.AppendUvarint([]byte(snapMagic), rest.Seq)
	data = binary.AppendUvarint(data, uint64(rest.Index))
	data = binary.AppendUvarint(data, uint64(len(rest.Waiting)))
	for _, e := range rest.Waiting {
		data = binary.AppendUvarint(data, e.Seq)
		data = binary.AppendUvarint(data, uint64(e.Index))
		data = append(binary.AppendUvarint(data, uint64(len(e.Subject))), e.Subject...)
		data = append(binary.AppendUvarint(data, uint64(len(e.Data))), e.Data...)
	}
	body, err := snap.Pack()
	if err != nil {
		return err
	}
	data = append(data, body...)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)

	f, err := os.CreateTemp(s.dir, "tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), s.name(snap.Seq))
}

// list returns the sequences of the files there are, newest first.
func (s *snapshots) list() ([]uint64, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var seqs []uint64
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), "snapshot-"); ok {
			if seq, err := strconv.ParseUint(rest, 10, 64); err == nil {
				seqs = append(seqs, seq)
			}
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

// load returns the fold of the newest file that is whole and not ahead of the log, whose last sequence is last, nor of the feed, as
// covered says; nil if there is none.
func (s *snapshots) load(last uint64, covered func(feed.Rest) bool) (*projections.Cluster, []projections.JobEvent) {
	if s.dir == "" {
		return nil, nil
	}
	seqs, err := s.list()
	if err != nil {
		return nil, nil
	}
	for _, seq := range seqs {
		if seq > last {
			s.log.Warn("a snapshot lies ahead of the log and is not used", "snapshot", seq, "last", last)
			continue
		}
		data, err := os.ReadFile(s.name(seq))
		if err == nil {
			var c *projections.Cluster
			var rest feed.Rest
			if c, rest, err = parseSnapshot(data); err == nil && !covered(rest) {
				err = fmt.Errorf("the feed of job states has lost what it had by then, up to %d: it is derived again from an older state", rest.Seq)
			}
			if err == nil {
				s.saved = c.Seq()
				return c, rest.Waiting
			}
		}
		s.log.Warn("a snapshot cannot be used", "file", s.name(seq), "error", err)
	}
	return nil, nil
}

var errSnapshot = errors.New("the file is damaged or of another version")

func parseSnapshot(data []byte) (*projections.Cluster, feed.Rest, error) {
	if len(data) < len(snapMagic)+sha256.Size || string(data[:len(snapMagic)]) != snapMagic {
		return nil, feed.Rest{}, errSnapshot
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if want := sha256.Sum256(body); !bytes.Equal(sum, want[:]) {
		return nil, feed.Rest{}, errSnapshot
	}
	r := reader{body[len(snapMagic):]}
	rest := feed.Rest{Seq: r.number(), Index: int(r.number())}
	for range r.number() {
		e := projections.JobEvent{Seq: r.number(), Index: int(r.number())}
		e.Subject = string(r.bytes())
		e.Data = bytes.Clone(r.bytes())
		if r.rest == nil {
			return nil, feed.Rest{}, errSnapshot
		}
		rest.Waiting = append(rest.Waiting, e)
	}
	snap, err := projections.Unpack(r.rest)
	if err != nil {
		return nil, feed.Rest{}, errors.Join(errSnapshot, err)
	}
	c, err := projections.Load(snap)
	if err != nil {
		return nil, feed.Rest{}, errors.Join(errSnapshot, err)
	}
	return c, rest, nil
}

// reader takes varints and byte strings off the front of rest, which is nil once something was not there.
type reader struct{ rest []byte }

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.number()
	if uint64(len(r.rest)) < n {
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
