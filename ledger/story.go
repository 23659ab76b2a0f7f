package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"stint/events"
	"stint/events/idset"
	"stint/ledger/rows"
	"stint/projections"
	"stint/projections/story"
)

// How much of the log one answer about a story reads.
const storyMessages = 1000

// tell answers AskStory: the story of a job from the places that are indexed, or that of the log from a sequence on.
func (l *Ledger) tell(ctx context.Context, db pebble.Reader, ask *rows.AskStory, sight projections.Sight, answer *rows.Answer) error {
	l.mu.Lock()
	log := l.fetch
	l.mu.Unlock()
	if log == nil {
		return errors.New("this ledger cannot read the log just now, so it has no stories to tell")
	}
	w := &witness{names: newNames(db), sight: sight}
	switch {
	case ask.Job == 0 && ask.Void:
		return tellVoid(ctx, db, log, ask, w, answer)
	case ask.Job != 0:
		return tellJob(ctx, db, log, ask, w, answer)
	}
	return tellAll(ctx, db, log, ask, w, answer)
}

// tellVoid tells what had no effect, from the table of it.
func tellVoid(ctx context.Context, db pebble.Reader, log Fetcher, ask *rows.AskStory, w *witness, answer *rows.Answer) error {
	wanted := map[uint64]map[uint32]bool{}
	most := storyLimit(ask)
	err := scan(db, binary.BigEndian.AppendUint64([]byte{tableVoid}, ask.AfterSeq+1), []byte{tableVoid + 1}, func(key, _ []byte) error {
		if len(key) != 13 {
			return damaged(key, errors.New("a key of another length"))
		}
		seq := binary.BigEndian.Uint64(key[1:])
		if wanted[seq] == nil {
			if len(wanted) > most {
				return errEnough
			}
			wanted[seq] = map[uint32]bool{}
		}
		wanted[seq][binary.BigEndian.Uint32(key[9:])] = true
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return tellPlaces(ctx, db, log, ask, w, answer, wanted, func(line *rows.StoryLine, indices map[uint32]bool) bool {
		return indices[line.Index] || indices[story.Whole]
	})
}

func tellJob(ctx context.Context, db pebble.Reader, log Fetcher, ask *rows.AskStory, w *witness, answer *rows.Answer) error {
	jobs, task, err := storyJobs(db, ask)
	if err != nil {
		return err
	}
	wanted := map[uint64]map[uint32]bool{} // by sequence: indices
	for _, job := range jobs {
		places, err := storyPlaces(db, job)
		if err != nil {
			return err
		}
		for _, p := range places {
			if p.seq <= ask.AfterSeq {
				continue
			}
			if wanted[p.seq] == nil {
				wanted[p.seq] = map[uint32]bool{}
			}
			wanted[p.seq][p.index] = true
		}
	}
	of := setOf(jobs)
	return tellPlaces(ctx, db, log, ask, w, answer, wanted, func(line *rows.StoryLine, indices map[uint32]bool) bool {
		// A message may name other jobs of the same act beside this one.
		return indices[line.Index] && (line.Job == 0 || of[line.Job] || line.Subject == events.SubjectSched) && (line.Void || !ask.Void) &&
			(task == nil || ofTask(line, task))
	})
}

// tellPlaces tells the places wanted (indices by sequence) as far as keep says, in the order of the log.
func tellPlaces(ctx context.Context, db pebble.Reader, log Fetcher, ask *rows.AskStory, w *witness, answer *rows.Answer, wanted map[uint64]map[uint32]bool,
	keep func(*rows.StoryLine, map[uint32]bool) bool) error {
	seqs := make([]uint64, 0, len(wanted))
	for seq := range wanted {
		seqs = append(seqs, seq)
	}
	sort.Slice(seqs, func(i, j int) bool { return seqs[i] < seqs[j] })
	most := storyLimit(ask)
	answer.StorySeq = answer.Seq
	for i, seq := range seqs {
		if i == most {
			answer.StorySeq = seqs[i-1]
			return nil
		}
		e, err := log.Message(ctx, seq)
		if errors.Is(err, ErrArchived) {
			answer.Story = append(answer.Story, &rows.StoryLine{Seq: seq, Index: story.Whole, Kind: "archived",
				Who: "archive", What: fmt.Sprintf("message %d has left the log", seq), Why: "it is in the archive"})
			continue
		}
		if err != nil {
			return fmt.Errorf("reading message %d of the log: %w", seq, err)
		}
		lines, err := tellMessage(db, &e, w, ask.Raw)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if keep(line, wanted[seq]) {
				answer.Story = append(answer.Story, line)
			}
		}
	}
	return nil
}

// storyJobs are the job ids whose stories make up the one that is asked for: those of an array with its tasks, those of a
// task with what happened to the array before it.
// task is the record of the one task that is asked for, if it is one.
func storyJobs(db pebble.Reader, ask *rows.AskStory) (jobs []uint32, task *rows.JobRow, err error) {
	jobs = []uint32{ask.Job}
	seen := map[uint32]bool{ask.Job: true}
	found := 0
	add := func(r *rows.JobRow) {
		if found++; r.HasTask {
			task = r
		}
		for _, id := range [2]uint32{r.Job, r.ArrayId} {
			if id != 0 && !seen[id] {
				seen[id] = true
				jobs = append(jobs, id)
			}
		}
	}
	q, err := newQuery(&rows.AskJobs{Jobs: []*rows.Selection{{Job: ask.Job, Tasks: events.WordsOf(ask.Task), HasTasks: ask.HasTask}}})
	if err != nil {
		return nil, nil, err
	}
	keys, err := q.candidates(db, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range keys {
		k := at.recordKey
		r := &rows.JobRow{}
		have, err := get(db, jobKey(nil, k), r)
		if err != nil {
			return nil, nil, err
		}
		// Of a requeued job the last instance counts.
		if have && q.selects(k, r) {
			if task != nil && sameJob(task, r) {
				found--
			}
			add(r)
		}
	}
	if found != 1 {
		task = nil
	}
	return jobs, task, nil
}

// ofTask: a line of an array's story is part of a task's, unless it is about another task.
func ofTask(line *rows.StoryLine, task *rows.JobRow) bool {
	if line.Job != task.ArrayId || line.Label == rows.Label(task) {
		return true
	}
	_, tasks, some := strings.Cut(line.Label, "_")
	if !some || tasks == "" || tasks[0] != '[' {
		return !some
	}
	set, err := idset.Parse(strings.Trim(tasks, "[]"), idset.HighestTask)
	return err != nil || set.Has(int(task.ArrayTask)) // a list that was cut short may hold it
}

// storyPlaces reads all chunks of a job's story, in the order of the log.
func storyPlaces(db pebble.Reader, job uint32) ([]placeOf, error) {
	var places []placeOf
	prefix := storyPrefix(nil, job)
	err := scan(db, prefix, after(prefix), func(key, value []byte) (err error) {
		if places, err = unpack(places, value); err != nil {
			return damaged(key, err)
		}
		return nil
	})
	return places, err
}

func storyLimit(ask *rows.AskStory) int {
	if n := int(ask.Limit); n > 0 && n < storyMessages {
		return n
	}
	return storyMessages
}

// tellAll tells what the log says behind a sequence, as far as the tables have it.
func tellAll(ctx context.Context, db pebble.Reader, log Fetcher, ask *rows.AskStory, w *witness, answer *rows.Answer) error {
	answer.StorySeq = ask.AfterSeq
	if ask.AfterSeq >= answer.Seq {
		return nil
	}
	left := storyLimit(ask)
	var failed error
	err := log.Messages(ctx, ask.AfterSeq+1, func(e events.Event) bool {
		if e.Seq > answer.Seq {
			return false
		}
		var lines []*rows.StoryLine
		if lines, failed = tellMessage(db, &e, w, ask.Raw); failed != nil {
			return false
		}
		answer.Story = append(answer.Story, lines...)
		answer.StorySeq = e.Seq
		left--
		return left > 0 && e.Seq < answer.Seq
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("reading the log behind %d: %w", ask.AfterSeq, err)
	}
	return nil
}

// tellMessage tells what of a message is for whoever asks, with what of it was void.
func tellMessage(db pebble.Reader, e *events.Event, w *witness, raw bool) ([]*rows.StoryLine, error) {
	lines := story.Tell(e, w)
	void := map[uint32]string{}
	prefix := voidKey(nil, e.Seq, 0)[:9]
	err := scan(db, prefix, after(prefix), func(key, value []byte) error {
		if len(key) == 13 {
			void[uint32(key[9])<<24|uint32(key[10])<<16|uint32(key[11])<<8|uint32(key[12])] = string(value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, ok := void[story.Whole]; ok && len(lines) == 0 { // there is nothing in it to tell of
		lines = append(lines, story.Nothing(e))
	}
	lines = slices.DeleteFunc(lines, func(line *rows.StoryLine) bool { return !w.sees(e, line) })
	for _, line := range lines {
		why, ok := void[line.Index]
		if !ok {
			why, ok = void[story.Whole]
		}
		if ok {
			line.Void = true
			line.Why = join(line.Why, "void: "+why)
		}
		if raw {
			line.Raw = story.Raw(e, line, w.sight.Spec)
		}
	}
	return lines, nil
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// witness is whoever is told a story: how things are called for them, and what of others' they may see.
type witness struct {
	*names
	sight projections.Sight
}

// sees says whether a line is for whoever asks.
func (w *witness) sees(e *events.Event, line *rows.StoryLine) bool {
	jobs, nodes := !w.sight.Private(events.Private_PRIVATE_JOBS), !w.sight.Private(events.Private_PRIVATE_NODES)
	if jobs && nodes {
		return true
	}
	var intent *events.Intent
	if i := int(line.Index); e.Intents != nil && i < len(e.Intents.Intents) {
		intent = e.Intents.Intents[i]
	}
	switch {
	case intent != nil && w.sight.Owns(intent.GetAuthor().GetUid()):
		return true
	case line.Job != 0:
		w.Label(line.Job) // looks the job up
		owner, known := w.owners[line.Job]
		return jobs || known && w.sight.Owns(owner)
	case line.Node != "":
		return nodes
	case intent != nil, e.Sched.GetCycle() != nil && line.Kind != "configured" && line.Kind != "partition-changed" && line.Kind != "config-set": // acts on jobs, and verdicts on somebody's
		return jobs || intent.GetVerb() == events.Verb_CONFIGURE
	}
	return true
}

// names looks names up in the tables.
type names struct {
	db     pebble.Reader
	labels map[uint32]string
	users  map[uint32]string
	owners map[uint32]uint32 // by job, of those whose label was asked for
}

func newNames(db pebble.Reader) *names {
	return &names{db: db, labels: map[uint32]string{}, users: map[uint32]string{0: "root"}, owners: map[uint32]uint32{}}
}

// Label is the job as people name it.
func (n *names) Label(job uint32) string {
	if label, ok := n.labels[job]; ok {
		return label
	}
	label := story.Numbers{}.Label(job)
	if r := n.row(job); r != nil {
		label = rows.Label(r)
		n.users[r.Uid], n.owners[job] = r.User, r.Uid
	}
	n.labels[job] = label
	return label
}

// User is the user's name if some job told it.
func (n *names) User(uid uint32) string {
	if name, ok := n.users[uid]; ok {
		return name
	}
	return story.Numbers{}.User(uid)
}

// row is the latest record of a raw job id.
func (n *names) row(job uint32) *rows.JobRow {
	q, err := newQuery(&rows.AskJobs{Jobs: []*rows.Selection{{Job: job}}})
	if err != nil {
		return nil
	}
	var last *rows.JobRow
	err = q.selected(n.db, func(at position) {
		r := &rows.JobRow{}
		if found, err := get(n.db, jobKey(nil, at.recordKey), r); err == nil && found && r.Job == job {
			last = r
		}
	})
	if err != nil {
		return nil
	}
	return last
}
