package projections

import (
	"cmp"
	"slices"
	"strconv"
)

// owned are the ids of one user's jobs that the queue is about: those that wait, run, or are completing. What somebody asks about their
// own jobs costs in proportion to these, however many others have.
type owned struct {
	epoch  uint64
	uid    uint32
	user   string
	n      int
	chunks []*idChunk // none empty, ascending
}

// idChunk is a part of an ascending list of ids. Like pages of a table, chunks are replaced where a copy may share them.
type idChunk struct {
	epoch uint64
	n     int
	ids   [256]uint32
}

// byOwner is all of them, ascending by user id and name.
type byOwner struct {
	epoch uint64
	list  []*owned
}

// sought says whether a job is in the index.
func sought(j *Job) bool { return j != nil && (!j.Over() || j.Completing) }

func (b *byOwner) find(uid uint32, user string) (int, bool) {
	return slices.BinarySearchFunc(b.list, uid, func(o *owned, uid uint32) int { return cmp.Or(cmp.Compare(o.uid, uid), cmp.Compare(o.user, user)) })
}

// move keeps the index in step with a change of a job.
func (b *byOwner) move(epoch uint64, before, after *Job) {
	was, is := sought(before), sought(after)
	if was == is {
		return
	}
	j := after
	if was {
		j = before
	}
	if b.epoch < epoch {
		b.list, b.epoch = slices.Clone(b.list), epoch
	}
	uid, user := j.GetOwner().GetUid(), j.GetOwner().GetUser()
	i, found := b.find(uid, user)
	if !found {
		if was {
			return
		}
		b.list = slices.Insert(b.list, i, &owned{epoch: epoch, uid: uid, user: user})
	}
	o := b.list[i]
	if o.epoch < epoch {
		o = &owned{epoch: epoch, uid: uid, user: user, n: o.n, chunks: slices.Clone(o.chunks)}
		b.list[i] = o
	}
	if is {
		o.add(j.Id)
	} else {
		o.drop(j.Id)
	}
	if o.n == 0 {
		b.list = slices.Delete(b.list, i, i+1)
	}
}

// chunk is the place of the chunk that an id is in, or belongs into.
func (o *owned) chunk(id uint32) int {
	i, found := slices.BinarySearchFunc(o.chunks, id, func(c *idChunk, id uint32) int { return cmp.Compare(c.ids[0], id) })
	if found {
		return i
	}
	return max(0, i-1)
}

func (o *owned) own(i int) *idChunk {
	c := o.chunks[i]
	if c.epoch < o.epoch {
		copied := *c
		copied.epoch = o.epoch
		c = &copied
		o.chunks[i] = c
	}
	return c
}

func (o *owned) add(id uint32) {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, &idChunk{epoch: o.epoch})
	}
	at := o.chunk(id)
	c := o.own(at)
	i, found := slices.BinarySearch(c.ids[:c.n], id)
	if found {
		return
	}
	if c.n == len(c.ids) {
		next := &idChunk{epoch: o.epoch}
		o.chunks = slices.Insert(o.chunks, at+1, next)
		if i < c.n { // into the middle: halves; behind the last, as ids mostly come, a new one
			next.n = copy(next.ids[:], c.ids[c.n/2:])
			c.n /= 2
		}
		if i >= c.n {
			c, i = next, i-c.n
		}
	}
	copy(c.ids[i+1:c.n+1], c.ids[i:c.n])
	c.ids[i] = id
	c.n++
	o.n++
}

func (o *owned) drop(id uint32) {
	if len(o.chunks) == 0 {
		return
	}
	at := o.chunk(id)
	i, found := slices.BinarySearch(o.chunks[at].ids[:o.chunks[at].n], id)
	if !found {
		return
	}
	c := o.own(at)
	copy(c.ids[i:], c.ids[i+1:c.n])
	c.n--
	o.n--
	if c.n == 0 {
		o.chunks = slices.Delete(o.chunks, at, at+1)
	}
}

// EachOf calls f with the jobs in the queue, running and completing, of users that are named (by name, or number), of each user ascending by
// id, until it returns false.
func (s *state) EachOf(users []string, f func(*Job) bool) {
	for _, o := range s.owners.list {
		if !slices.Contains(users, o.user) && !slices.Contains(users, strconv.FormatUint(uint64(o.uid), 10)) {
			continue
		}
		for _, c := range o.chunks {
			for _, id := range c.ids[:c.n] {
				if j := s.jobs.get(id); j != nil && !f(j) {
					return
				}
			}
		}
	}
}
