package cli

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"stint/events"
	"stint/events/bus"
	"stint/events/bus/server"
	"stint/projections"
	"stint/scheduler/replay"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "fold the whole log from nothing, and hold its decisions to what they were made from", Category: jobs,
		Description: "It compares the state with the live one, makes every cycle of this version of the deciding code again, and checks the\n" +
			"placements of others. It ends with 1 and names the first decision that comes out differently, if one does. It reads the\n" +
			"log itself, so it needs the rights of whoever runs the cluster; the cluster may be up or down.\n\nExample: stint replay --verify",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "verify", Usage: "compare with the live state, and end with 1 if anything differs"},
			&cli.Uint64Flag{Name: "until", Usage: "stop after this `SEQUENCE` of the log", DefaultText: "at its end"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: replayLog,
	}
}

func replayLog(c *cli.Context) error {
	dir, err := ownHomeOf(c)
	if err != nil {
		return err
	}
	h, err := openHost(dir, logger(os.Stderr, false, textLog))
	if err != nil {
		return err
	}
	begun := time.Now()
	var report *replay.Report
	var o replay.Options
	err = h.atRest(c.Context, func(b bus.Bus, s *server.Server) error {
		o.Until = c.Uint64("until")
		if term.IsTerminal(int(os.Stderr.Fd())) {
			o.Progress = func(seq uint64) { fmt.Fprintf(os.Stderr, "\rfolded up to %d ", seq) }
			defer fmt.Fprint(os.Stderr, "\r\033[K")
		}
		if c.Bool("verify") && s == nil && o.Until == 0 {
			if o.LiveSeq, o.LiveHash, err = liveHash(c.Context, b); err != nil {
				return err
			}
		}
		report, err = replay.Verify(c.Context, replay.From(b.Events()), o)
		return err
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		if err := e.Encode(struct {
			OK bool `json:"ok"`
			*replay.Report
			Hash string
		}{report.OK(o), report, hex.EncodeToString(report.Hash[:])}); err != nil {
			return err
		}
	} else {
		printReport(c, report, o, time.Since(begun))
	}
	if c.Bool("verify") && !report.OK(o) {
		return exitError{code: 1}
	}
	return nil
}

// liveHash asks a controller for the hash of its state.
func liveHash(ctx context.Context, b bus.Bus) (seq uint64, hash [32]byte, err error) {
	q, err := (&projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{WantHash: true}}}).MarshalVT()
	if err != nil {
		return 0, hash, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	data, err := b.Wire().Ask(ctx, events.SubjectAsk("status"), q)
	if err != nil {
		return 0, hash, fmt.Errorf("asking a controller for the hash of its state: %w", err)
	}
	a := new(projections.Answer)
	if err := a.UnmarshalVT(data); err != nil {
		return 0, hash, err
	}
	got, err := hex.DecodeString(a.GetStatus().GetHash())
	if a.Error != "" || err != nil || len(got) != len(hash) {
		return 0, hash, errors.Join(errors.New("the controller told no hash of its state"), errors.New(a.Error))
	}
	return a.Seq, [32]byte(got), nil
}

func printReport(c *cli.Context, r *replay.Report, o replay.Options, took time.Duration) {
	w := c.App.Writer
	fmt.Fprintf(w, "Folded %d messages up to %d in %s: %d terms, %d messages of cycles, %d voids.\n", r.Messages, r.Seq, took.Round(time.Millisecond), r.Terms, r.Cycles, r.Void)
	fmt.Fprintf(w, "Decided again and the same: %d of %d.", r.Derived, r.Cycles-r.Others)
	if r.Others > 0 {
		fmt.Fprintf(w, " Of another version: %d, whose placements were checked: %d fit, %d were void.", r.Others, r.Placed, r.Refused)
	}
	fmt.Fprintln(w)
	switch {
	case o.LiveSeq == 0:
		fmt.Fprintf(w, "The state is %x.\n", r.Hash)
	case !r.Compared:
		fmt.Fprintf(w, "The log ends before %d, which the live state is current to.\n", o.LiveSeq)
	case r.Same:
		fmt.Fprintf(w, "At %d the live state is the same: %x.\n", o.LiveSeq, o.LiveHash)
	default:
		fmt.Fprintf(w, "At %d the live state is another one.\n", o.LiveSeq)
	}
	if r.First != nil {
		fmt.Fprintf(w, "The first decision that comes out differently: %s\n", r.First)
		if r.More > 0 {
			fmt.Fprintf(w, "So do %d more messages.\n", r.More)
		}
	}
}

// atRest runs fn with the rights of a controller, whether the cluster is up or down; if it is down, on a server of its own, which
// fn is told.
func (h *host) atRest(ctx context.Context, fn func(bus.Bus, *server.Server) error) error {
	var s *server.Server
	if lock, err := h.dir.Lock(); err == nil && h.cluster.Embedded { // nobody else serves the log
		defer lock.Close()
		if s, err = h.startBus(ctx); err != nil {
			return err
		}
		defer s.Stop()
	} else if err == nil {
		lock.Close()
	}
	return h.with(ctx, bus.Role{Kind: bus.Controller}, s, func(b bus.Bus) error { return fn(b, s) })
}
