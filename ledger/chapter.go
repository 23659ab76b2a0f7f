package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// The story index: for each job, where the log speaks of it. A chunk of at most chapterLen places is one row, so that
// a job with a long story costs no more per event than one with a short story. A place is packed as the difference of its sequence to
// the one before (zigzag, since a submission is indexed when it is admitted) and its index in the message.
type chapter struct {
	job   uint32
	chunk uint32
	count int
	last  placeOf // the last one
	data  []byte
	dirty bool
}

const chapterLen = 64

// placeOf is where the log speaks of a job: a fact or intent of a message.
type placeOf struct {
	seq   uint64
	index uint32
}

// tell adds a place to a job's story.
func (t *tables) tell(job uint32, seq uint64, index uint32) error {
	if job == 0 {
		return nil
	}
	c := t.stories[job]
	if c == nil {
		c = &chapter{job: job}
		if job <= t.topJob {
			if err := t.readChapter(c); err != nil {
				return err
			}
		} else {
			t.topJob = job
		}
		t.stories[job] = c
	}
	if c.count > 0 && c.last == (placeOf{seq, index}) {
		return nil
	}
	if c.count == chapterLen {
		if c.dirty {
			full := *c
			t.told = append(t.told, &full)
		}
		*c = chapter{job: job, chunk: c.chunk + 1}
	}
	c.data = binary.AppendVarint(c.data, int64(seq-c.last.seq))
	c.data = binary.AppendUvarint(c.data, uint64(index))
	c.count++
	c.last = placeOf{seq, index}
	if !c.dirty {
		c.dirty = true
		t.told = append(t.told, c)
	}
	return nil
}

// readChapter reads the last chunk of a job's story.
func (t *tables) readChapter(c *chapter) error {
	if err := t.settle(); err != nil {
		return err
	}
	prefix := storyPrefix(nil, c.job)
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return fmt.Errorf("reading the story of job %d: %w", c.job, err)
	}
	defer it.Close()
	if !it.Last() {
		if err := it.Error(); err != nil {
			return fmt.Errorf("reading the story of job %d: %w", c.job, err)
		}
		return nil
	}
	places, err := unpack(nil, it.Value())
	if err != nil {
		return damaged(it.Key(), err)
	}
	c.chunk = binary.BigEndian.Uint32(it.Key()[len(prefix):])
	c.count = len(places)
	c.data = append(c.data, it.Value()...)
	if c.count > 0 {
		c.last = places[c.count-1]
	}
	return nil
}

// unpack reads a chunk.
func unpack(to []placeOf, data []byte) ([]placeOf, error) {
	var seq uint64
	for len(data) > 0 {
		d, n := binary.Varint(data)
		if n <= 0 {
			return to, errors.New("a story that breaks off")
		}
		index, m := binary.Uvarint(data[n:])
		if m <= 0 || index > 1<<32-1 {
			return to, errors.New("a story that breaks off")
		}
		seq += uint64(d)
		to = append(to, placeOf{seq, uint32(index)})
		data = data[n+m:]
	}
	return to, nil
}

// findTopJob finds the highest job with a story, so that new jobs need no look.
func (t *tables) findTopJob() error {
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableStory}, UpperBound: []byte{tableStory + 1}})
	if err != nil {
		return fmt.Errorf("reading stories: %w", err)
	}
	defer it.Close()
	if it.Last() && len(it.Key()) >= 5 {
		t.topJob = binary.BigEndian.Uint32(it.Key()[1:])
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("reading stories: %w", err)
	}
	return nil
}
