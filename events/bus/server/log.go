package server

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logger hands what the NATS server says to ours, a level lower than it thinks: its notices are details here. It
// listens for the two things that only its log tells: that it has given up, and that it cannot write.
type logger struct {
	log         *slog.Logger
	cannotWrite chan struct{} // closed when a write failed for good

	mu      sync.Mutex
	last    string // the last error
	fatal   bool
	written bool // cannotWrite is closed
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, cannotWrite: make(chan struct{})}
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Info(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(format string, v ...any)  {}
func (l *logger) Tracef(format string, v ...any)  {}

func (l *logger) Errorf(format string, v ...any) {
	text := l.keep(false, format, v...)
	l.log.Warn(text)
}

func (l *logger) Fatalf(format string, v ...any) {
	text := l.keep(true, format, v...)
	l.log.Error(text)
}

// writeErrors are what the server says when it stops writing: a stream's store, and JetStream as a whole.
var writeErrors = []string{"Critical write error", "critical write error", "will be DISABLED"}

func (l *logger) keep(fatal bool, format string, v ...any) (text string) {
	text = fmt.Sprintf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.fatal = text, l.fatal || fatal
	for _, e := range writeErrors {
		if !l.written && strings.Contains(text, e) {
			l.written = true
			close(l.cannotWrite)
		}
	}
	return text
}

func (l *logger) isFatal() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// because returns the last error as the tail of a sentence, or "".
func (l *logger) because() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return ""
	}
	return ": " + l.last
}
