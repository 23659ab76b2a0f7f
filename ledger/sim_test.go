package ledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/ledger/rows"
	"stint/projections/story"
	"stint/scheduler/sim"
)

// simulated is a whole cluster in memory with a ledger that follows it.
type simulated struct {
	t      *testing.T
	script *sim.Script
	l      *Ledger
}

// follow brings the ledger to the end of the world's log.
func (s *simulated) follow() {
	for _, m := range s.script.World.Log() {
		if err := s.l.Apply(events.Decode(m.Seq, m.At, m.Subject, m.Data)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.l.Commit(false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *simulated) Message(_ context.Context, seq uint64) (events.Event, error) {
	m := s.script.World.Log()[seq-1]
	return events.Decode(m.Seq, m.At, m.Subject, m.Data), nil
}

func (s *simulated) Messages(_ context.Context, from uint64, f func(events.Event) bool) error {
	for _, m := range s.script.World.Log()[from-1:] {
		if !f(events.Decode(m.Seq, m.At, m.Subject, m.Data)) {
			return nil
		}
	}
	return nil
}

// sacct prints what the command would, with the times of day since the world began.
func (s *simulated) sacct(args []string) string {
	now := time.UnixMicro(s.script.World.Now()).UTC()
	q, err := slurm.ReadSacct(slurm.Input{Args: args, Now: now, Release: slurm.Release2605, User: "root"})
	if err != nil {
		return err.Error() + "\n"
	}
	table, err := format.AccountTable(q.Format, slurm.Release2605)
	if err != nil {
		return err.Error() + "\n"
	}
	c := &format.AccountContext{Unit: q.Unit}
	c.Clock = format.Clock{Now: now, Format: "%T"}
	var b strings.Builder
	if !q.NoHeader {
		b.WriteString(table.Head(q.Separation))
	}
	answer := ask(s.t, s.l, &rows.Ask{What: &rows.Ask_Jobs{Jobs: q.Ask}})
	for _, r := range format.Accounts(answer.Records, c) {
		b.WriteString(strings.TrimRight(table.Row(q.Separation, r), " \n") + "\n")
	}
	return b.String()
}

// The scripts in testdata/*.txt: commands of scheduler/sim, and
//
//	sacct OPTION …   what sacct prints
//	story JOB        what happened to a job
//
// with what they print after a line of dashes; REWRITE=1 writes it again.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &simulated{t: t, script: sim.NewScript(sim.Options{}), l: open(t, vfs.NewMem(), Options{})}
			defer s.l.Close()
			s.l.fetch = s
			var out strings.Builder
			for block := range strings.SplitSeq(strings.TrimRight(string(data), "\n"), "\n\n") {
				commands, _, _ := strings.Cut(block, "\n----")
				got := s.run(commands)
				out.WriteString(commands + "\n----\n" + got + "\n")
			}
			got := strings.TrimRight(out.String(), "\n") + "\n"
			if os.Getenv("REWRITE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, _ := os.ReadFile(file)
			x, y := strings.Split(string(want), "\n"), strings.Split(got, "\n")
			for i := 0; i < max(len(x), len(y)); i++ {
				var w, g string
				if i < len(x) {
					w = x[i]
				}
				if i < len(y) {
					g = y[i]
				}
				if w != g {
					t.Fatalf("%s:%d\n got %s\nwant %s", file, i+1, g, w)
				}
			}
		})
	}
}

func (s *simulated) run(commands string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(commands, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "sacct":
			s.follow()
			out.WriteString(s.sacct(words[1:]))
		case len(words) == 2 && words[0] == "story":
			s.follow()
			var job uint32
			fmt.Sscan(words[1], &job)
			for _, l := range ask(s.t, s.l, &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{Job: job}}}).Story {
				at := time.UnixMicro(l.AtUs).UTC().Format("15:04:05")
				fmt.Fprintf(&out, "%s %-8s %-9s %s: %s", at, l.Label, l.Kind, l.Who, story.Clean(l.What))
				if l.Why != "" {
					fmt.Fprintf(&out, " (%s)", l.Why)
				}
				out.WriteByte('\n')
			}
		default:
			out.WriteString(s.script.Run(line))
		}
	}
	return out.String()
}
