package sim

// process is a daemon. It can die at any of its points, stand still, be cut off from everybody and be started again. What it
// had in mind, and what was on its way to it, is gone with it; what it has on disk its kind knows.
type process struct {
	w     *World
	kind  string
	alive bool
	cut   bool
	life  int
	pause int64  // it stands still until then
	died  func() // forgets what was in memory, and sees to it that somebody starts it again
}

// later has it do something in a while, if it has lived on by then. Where it stands still, it does it when it goes on.
func (p *process) later(d int64, do func()) {
	life := p.life
	var due func()
	due = func() {
		switch {
		case !p.alive || p.life != life:
		case p.w.now < p.pause:
			p.w.at(p.pause, due)
		default:
			do()
		}
	}
	p.w.after(d, due)
}

// passes is a point in what a process does, at which it may die. It says whether it goes on.
func (p *process) passes(point string) bool {
	w := p.w
	if !p.alive {
		return false
	}
	if w.rough == nil {
		return true
	}
	w.point++
	name := p.kind + ": " + point
	w.points[name]++
	switch {
	case w.rough.CrashAt != 0:
		if w.point != w.rough.CrashAt {
			return true
		}
	case !w.faulty || w.rng.IntN(w.rough.oneIn(w.points[name])) != 0:
		return true
	}
	w.deaths[name]++
	w.tell("%s dies after it has %s", p.kind, point)
	p.kill()
	return false
}

// oneIn is how rarely the point is the end of who passes it that was passed so often: points that are passed all the time no more often than
// others.
func (r *Roughness) oneIn(passed int) int {
	if passed < 200 {
		return max(r.Deaths/16, 1)
	}
	return r.Deaths
}

// kill ends it, as kill -9 does.
func (p *process) kill() {
	if !p.alive {
		return
	}
	p.alive = false
	p.life++
	p.pause = 0
	if p.died != nil {
		p.died()
	}
}

// ───── what goes over the bus ─────

// wire takes something from one process to others, as a nudge or a beat: once, or twice, or never, in its own time. Without
// faults it takes no time.
func (w *World) wire(do func()) {
	if w.rough == nil {
		do()
		return
	}
	if w.faulty {
		switch w.rng.IntN(40) {
		case 0:
			return
		case 1:
			w.after(w.transit(), do)
		}
	}
	w.after(w.transit(), do)
}

// transit is how long something is on its way. Most of it is quick; some of it is overtaken by what is sent much later.
func (w *World) transit() int64 {
	switch {
	case w.rough == nil:
		return 0
	case w.faulty && w.rng.IntN(100) == 0:
		return w.rng.Int64N(10 * Second)
	case w.rng.IntN(4) == 0:
		return w.rng.Int64N(500 * Millisecond)
	}
	return w.rng.Int64N(20 * Millisecond)
}

const patience = 2 * Second // with an append that nobody answers

// append is bus.Log.Append: it stores data if the subject's last message is after, and settles what was not answered by the
// subject's first message behind it. done is told the sequence, or that of the other author's message that is there.
func (p *process) append(subject string, after uint64, data []byte, done func(seq uint64, deposed bool)) {
	w := p.w
	if w.rough == nil {
		if seq, ok := w.append(subject, after, data); ok {
			done(seq, false)
		} else {
			done(w.firstBehind(subject, after), true)
		}
		return
	}
	settled := false
	settle := func(seq uint64, deposed bool) {
		if !settled {
			settled = true
			done(seq, deposed)
		}
	}
	var try, look func()
	look = func() {
		if settled {
			return
		}
		if p.cut {
			p.later(patience, look)
			return
		}
		seq := w.firstBehind(subject, after)
		switch {
		case seq == 0:
			try()
		case string(w.log[seq-1].Data) == string(data):
			settle(seq, false)
		default:
			settle(seq, true)
		}
	}
	try = func() {
		w.request(p, func() {
			seq, ok := w.append(subject, after, data)
			w.answer(p, func() {
				if ok {
					settle(seq, false)
				} else {
					look() // a refusal may be about one's own earlier try
				}
			})
		})
		p.later(patience, look)
	}
	try()
}

// publish is bus.Log.Publish: the same bytes under the same id until they are acknowledged. The bus knows an id for two
// minutes; whoever repeats it later stores it twice.
func (p *process) publish(subject, id string, data []byte, done func(seq uint64)) {
	w := p.w
	settled := false
	var try func()
	try = func() {
		if settled {
			return
		}
		w.request(p, func() {
			known, seen := w.ids[id]
			switch {
			case seen && w.now-known.at <= 2*Minute:
			case w.has(flawLostAck, 20):
				known = published{uint64(len(w.log)), w.now}
			default:
				known = published{w.store(subject, data), w.now}
				w.ids[id] = known
			}
			w.answer(p, func() {
				if !settled {
					settled = true
					done(known.seq)
				}
			})
		})
		p.later(patience, try)
	}
	try()
}

type published struct {
	seq uint64
	at  int64
}

// request takes a question to the bus, or loses it; now and then it comes twice.
func (w *World) request(p *process, do func()) {
	if p.cut {
		return
	}
	w.wire(do)
}

// answer takes what the bus answers back to whoever asked, or loses it.
func (w *World) answer(p *process, do func()) {
	if w.faulty && w.rng.IntN(40) == 0 {
		return
	}
	p.later(w.transit(), func() {
		if !p.cut {
			do()
		}
	})
}

// firstBehind is the sequence of a subject's first message behind another; 0: there is none.
func (w *World) firstBehind(subject string, after uint64) uint64 {
	list := w.subjects[subject]
	for i := len(list) - 1; i >= 0 && list[i] > after; i-- {
		if i == 0 || list[i-1] <= after {
			return list[i]
		}
	}
	return 0
}
