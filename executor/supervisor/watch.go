package supervisor

import "sync"

// watcher is one who hears of starts, exits and samples. What it has not taken yet waits in line; one who falls too far
// behind is let go, and finds everything again when it comes back, since exits wait until they are acknowledged.
type watcher struct {
	mu    sync.Mutex
	more  *sync.Cond
	queue []*Reply
	over  bool
}

const maxWaiting = 1 << 17

func newWatcher() *watcher {
	w := &watcher{}
	w.more = sync.NewCond(&w.mu)
	return w
}

func (w *watcher) put(r *Reply) {
	w.mu.Lock()
	if len(w.queue) >= maxWaiting {
		w.over, w.queue = true, nil
	}
	if !w.over {
		w.queue = append(w.queue, r)
	}
	w.more.Signal()
	w.mu.Unlock()
}

// take waits for what there is; nil: it is over.
func (w *watcher) take() []*Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.over {
		w.more.Wait()
	}
	q := w.queue
	w.queue = nil
	return q
}

func (w *watcher) close() {
	w.mu.Lock()
	w.over, w.queue = true, nil
	w.more.Signal()
	w.mu.Unlock()
}

// finish lets what waits be taken, and nothing after it.
func (w *watcher) finish() {
	w.mu.Lock()
	w.over = true
	w.more.Signal()
	w.mu.Unlock()
}

// publish tells all watchers. The caller holds s.mu.
func (s *supervisor) publish(r *Reply) {
	for w := range s.watchers {
		w.put(r)
	}
}

// subscribe begins a watch: what runs, what has ended unacknowledged, a Caught, and from there on what happens.
func (s *supervisor) subscribe() *watcher {
	w := newWatcher()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.live {
		if st.birth != nil && !st.birth.Held { // else it is told when it is let go
			w.put(&Reply{Answer: &Reply_Started{st.started()}})
		}
	}
	for _, x := range s.ended {
		w.put(&Reply{Answer: &Reply_Exited{x}})
	}
	w.put(&Reply{Answer: &Reply_Caught{&Caught{}}})
	s.watchers[w] = struct{}{}
	return w
}

func (s *supervisor) unsubscribe(w *watcher) {
	s.mu.Lock()
	delete(s.watchers, w)
	s.mu.Unlock()
	w.close()
}
