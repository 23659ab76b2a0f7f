package scheduler

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"stint/projections"
)

// tellEvery is how often a controller says how far it has got.
const tellEvery = 2 * time.Second

const (
	standingsMost = 200              // followers that are remembered, executors apart
	standingsFor  = 10 * time.Minute // and for how long after they were heard last
	pastMost      = 600              // moments of the log's growth that are remembered
)

// standings is how far each of those who follow the log has got, by their own words. It is shown to people; nothing is decided by it.
type standings struct {
	own   string // this controller's name
	clock func() time.Time

	mu    sync.Mutex
	heard map[who]*standing
	past  growth // when the log had got how far, as this controller knows
	told  growth // and as the others said
}

type who struct{ kind, name string }

type standing struct {
	seq     uint64
	version string
	at      time.Time
}

// growth is when the log had got how far, oldest first, a second apart at least.
type growth []moment

type moment struct {
	at  time.Time
	seq uint64
}

func newStandings(own string, clock func() time.Time) *standings {
	return &standings{own: own, clock: clock, heard: map[who]*standing{}}
}

// standing is what this controller says of itself.
func (c *Controller) standing() []byte {
	s := &projections.Standing{Kind: "controller", Name: c.cfg.Name, Version: c.cfg.Build}
	if shown := c.shown.Load(); shown != nil {
		s.Seq = shown.view.Seq()
	}
	data, _ := s.MarshalVT() // cannot fail
	return data
}

// hear notes what one said; seq is how far the log is known to go.
func (s *standings) hear(data []byte, seq uint64) {
	said := new(projections.Standing)
	if said.UnmarshalVT(data) != nil || said.Name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.past.pass(now, seq)
	s.told.pass(now, said.Seq)
	for k, h := range s.heard {
		if now.Sub(h.at) > standingsFor {
			delete(s.heard, k)
		}
	}
	k := who{said.Kind, said.Name}
	if s.heard[k] == nil && len(s.heard) >= standingsMost {
		return
	}
	s.heard[k] = &standing{said.Seq, said.Version, now}
}

// pass notes how far the log goes now.
func (g *growth) pass(now time.Time, seq uint64) {
	p := *g
	if n := len(p); n > 0 && (now.Sub(p[n-1].at) < time.Second || p[n-1].seq >= seq) {
		return
	}
	if len(p) >= pastMost {
		p = slices.Delete(p, 0, len(p)-pastMost+1)
	}
	*g = append(p, moment{now, seq})
}

// since is how long the log has had more than seq, as far back as is remembered.
func (g growth) since(now time.Time, seq uint64) time.Duration {
	i, _ := slices.BinarySearchFunc(g, seq, func(m moment, seq uint64) int {
		if m.seq > seq {
			return 1
		}
		return -1
	})
	if i == len(g) {
		return 0
	}
	return now.Sub(g[i].at)
}

// staleAfter is from how long a lag on an answer says how old it is: a few seconds are nobody's worry.
const staleAfter = 5 * time.Second

// lag is for how long others have known more of the log than this controller, which has read it to seq; 0 below staleAfter.
func (s *standings) lag(seq uint64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.told.since(s.clock(), seq); d >= staleAfter {
		return d
	}
	return 0
}

// list is everybody's standing while the log goes to seq: controllers, ledgers, agents by name, then all executors in one.
func (s *standings) list(seq uint64, b *beats) []*projections.Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.past.pass(now, seq)
	of := func(kind, name, version string, has uint64, at time.Time) *projections.Follower {
		f := &projections.Follower{Kind: kind, Name: name, Version: version, Seq: has, SilentUs: now.Sub(at).Microseconds()}
		if has < seq && kind != "agent" { // an agent does not follow: it knows what it was asked for last
			f.Behind, f.BehindUs = seq-has, s.past.since(now, has).Microseconds()
		}
		return f
	}
	var all []*projections.Follower
	for k, h := range s.heard {
		has, at := h.seq, h.at
		if k == (who{"controller", s.own}) {
			has, at = seq, now
		}
		all = append(all, of(k.kind, k.name, h.version, has, at))
	}
	order := []string{"controller", "ledger", "agent"}
	slices.SortFunc(all, func(a, b *projections.Follower) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	if name, has, at, n := b.slowest(now); n > 0 {
		f := of("executor", name, "", has, at)
		f.Count = uint32(n)
		all = append(all, f)
	}
	return all
}

// slowest is of all executors that were heard within a minute the one that knows least of the log, and how many they are.
func (b *beats) slowest(now time.Time) (name string, seq uint64, at time.Time, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for node, has := range b.knows {
		heard := b.last[node]
		if has == 0 || now.Sub(heard) > time.Minute { // 0: it has just come up, and knows nothing yet
			continue
		}
		if n++; name == "" || has < seq || has == seq && node < name {
			name, seq, at = node, has, heard
		}
	}
	return name, seq, at, n
}
