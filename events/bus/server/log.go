package server

import (
	"fmt"
	"log/slog"
	"sync"
)

// logger hands what the NATS server says to ours, a level lower than it thinks: its notices are details here.
type logger struct {
	log  *slog.Logger
	mu   sync.Mutex
	last string // the last error
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Info(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(format string, v ...any)  {}
func (l *logger) Tracef(format string, v ...any)  {}

func (l *logger) Errorf(format string, v ...any) {
	l.keep(format, v...)
	l.log.Warn(fmt.Sprintf(format, v...))
}

func (l *logger) Fatalf(format string, v ...any) {
	l.keep(format, v...)
	l.log.Error(fmt.Sprintf(format, v...))
}

func (l *logger) keep(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, v...)
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
