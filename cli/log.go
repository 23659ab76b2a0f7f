package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// logLevel is what of a log is written in this process. --verbose has all written, whatever is said later.
var logLevel = new(slog.LevelVar)

// Forms of a log.
const (
	textLog = "text" // key=value
	jsonLog = "json" // an object a line
)

func logFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: "log-format", Usage: "write the log as `FORM`: text (key=value) or json (an object a line)", Value: textLog, EnvVars: []string{"STINT_LOG_FORMAT"},
		Action: func(_ *cli.Context, form string) error {
			if form != textLog && form != jsonLog {
				return fmt.Errorf("--log-format %q: write %s or %s", form, textLog, jsonLog)
			}
			return nil
		}}
}

// logger returns where a daemon writes: one line an event, as key=value or as JSON, quiet unless something is worth knowing. On a
// terminal the date is left out of text.
func logger(w io.Writer, verbose bool, form string) *slog.Logger {
	var level slog.Leveler = logLevel
	if verbose {
		level = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: level}
	if form == jsonLog {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
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
