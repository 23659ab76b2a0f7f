package cli

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// logLevel is what of a log is written in this process. --verbose has all written, whatever is said later.
var logLevel = new(slog.LevelVar)

// logger returns where a daemon writes: one line an event, as key=value, quiet unless something is worth knowing. On a
// terminal the date is left out.
func logger(w io.Writer, verbose bool) *slog.Logger {
	var level slog.Leveler = logLevel
	if verbose {
		level = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: level}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// colour reports whether colours may be used on f: a terminal, and nobody asked for none.
func colour(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
