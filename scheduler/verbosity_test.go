package scheduler

import (
	"log/slog"
	"testing"

	"stint/events"
)

func TestVerbosity(t *testing.T) {
	for _, c := range []struct {
		debug, flags string
		want         slog.Level
	}{
		{"", "", slog.LevelInfo}, {"info", "", slog.LevelInfo}, {"verbose", "", slog.LevelInfo}, {"4", "", slog.LevelInfo}, {"Debug", "", slog.LevelDebug},
		{"debug3", "", slog.LevelDebug}, {"5", "", slog.LevelDebug}, {"error", "", slog.LevelError}, {"2", "", slog.LevelError}, {"quiet", "", 12}, {"0", "", 12},
		{"quiet", "Backfill", slog.LevelDebug}, {"info", "(null)", slog.LevelInfo},
	} {
		cfg := &events.Config{}
		for _, s := range [][2]string{{"SlurmctldDebug", c.debug}, {"debugflags", c.flags}} {
			if s[1] != "" {
				cfg.Settings = append(cfg.Settings, &events.Setting{Key: s[0], Value: s[1]})
			}
		}
		if got := verbosity(cfg); got != c.want {
			t.Errorf("SlurmctldDebug=%s DebugFlags=%s logs at %v, want %v", c.debug, c.flags, got, c.want)
		}
	}
}
