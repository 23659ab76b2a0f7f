package scheduler

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// watch looks at the loop from outside: a cycle that does not end and intents that wait while nothing is decided are
// said aloud, once each time, and shown in the status.
type watch struct {
	limit time.Duration
	log   *slog.Logger

	mu      sync.Mutex
	doing   string
	since   time.Time
	told    bool
	waits   time.Time // since when the inbox is not empty without a decision; zero: it is empty
	waiting int
	toldOf  bool
	failed  string // what the last pass failed with
	failure error  // why the log is not followed any more
}

func (w *watch) begin(doing string) {
	w.mu.Lock()
	w.doing, w.since, w.told = doing, time.Now(), false
	w.mu.Unlock()
}

func (w *watch) end() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := time.Since(w.since)
	if w.told {
		w.log.Warn("it ended after all", "what", w.doing, "took", took)
	}
	w.doing = ""
	return took
}

// inbox notes how many intents wait for a verdict.
func (w *watch) inbox(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case n == 0:
		w.waits, w.toldOf = time.Time{}, false
	case w.waits.IsZero() || n < w.waiting:
		w.waits = time.Now() // it moves
	}
	w.waiting = n
}

// fail notes that a pass failed, or (nil) that one did not.
func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = ""
	if err != nil {
		w.failed, _, _ = strings.Cut(err.Error(), "\n")
	}
}

func (w *watch) ended(err error) {
	w.mu.Lock()
	w.failure = err
	w.mu.Unlock()
}

func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// complaint says what is wrong with the loop, or "".
func (w *watch) complaint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.doing != "" && time.Since(w.since) > w.limit {
		return "a " + w.doing + " has been running for " + time.Since(w.since).Round(time.Second).String()
	}
	if w.failed != "" {
		return "the last pass failed: " + w.failed
	}
	if !w.waits.IsZero() && time.Since(w.waits) > w.limit {
		return "intents have been waiting for " + time.Since(w.waits).Round(time.Second).String() + " while nothing is decided"
	}
	return ""
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(max(w.limit/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text := w.complaint()
		if text == "" {
			continue
		}
		w.mu.Lock()
		told := w.told && w.doing != "" || w.toldOf && w.doing == ""
		if w.doing != "" {
			w.told = true
		} else {
			w.toldOf = true
		}
		w.mu.Unlock()
		if !told {
			w.log.Error("the loop is stuck", "why", text)
		}
	}
}
