package scheduler

import (
	"log/slog"
	"strings"

	"stint/events"
)

// heed logs as much as the configuration says, and scontrol setdebug and setdebugflags since.
func (c *Controller) heed() {
	if cfg := c.state.Config(); c.cfg.Level != nil && cfg != c.heeded {
		c.heeded = cfg
		c.cfg.Level(verbosity(cfg))
	}
}

// verbosity is the level that SlurmctldDebug stands for. DebugFlags name parts of a controller of which everything is to be told;
// here there is one log, so any of them has everything told.
func verbosity(cfg *events.Config) slog.Level {
	level := slog.LevelInfo
	for _, s := range cfg.GetSettings() {
		switch value := strings.ToLower(s.GetValue()); {
		case strings.EqualFold(s.GetKey(), "DebugFlags") && value != "" && value != "(null)":
			return slog.LevelDebug
		case !strings.EqualFold(s.GetKey(), "SlurmctldDebug"):
		case strings.HasPrefix(value, "debug"), len(value) == 1 && value >= "5" && value <= "9":
			level = slog.LevelDebug
		case value == "error", value == "2":
			level = slog.LevelError
		case value == "quiet", value == "fatal", value == "0", value == "1":
			level = slog.LevelError + 4
		}
	}
	return level
}
