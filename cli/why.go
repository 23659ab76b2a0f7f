package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"stint/events"
	"stint/projections"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "say why a job waits, with numbers, or how it ended", ArgsUsage: "JOB", Category: "JOBS AND THEIR STORY",
		Description: "Example: stint why 81",
		Flags:       []cli.Flag{dirFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("say which job: stint why 81")
			}
			id, err := strconv.ParseUint(c.Args().First(), 10, 32)
			if err != nil || id == 0 {
				return fmt.Errorf("%q is not the id of a job", c.Args().First())
			}
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			conn, err := dial(dir)
			if err != nil {
				return err
			}
			defer conn.Close()
			a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Why{Why: &projections.AskWhy{Job: uint32(id)}}})
			if err != nil {
				return fmt.Errorf("%w; `stint events %d` may know", err, id)
			}
			fmt.Fprint(c.App.Writer, explain(a.GetWhy(), time.UnixMicro(a.NowUs)))
			return nil
		},
	}
}

// explain says in sentences why a job is where it is.
func explain(a *projections.AnswerWhy, now time.Time) string {
	j, o := a.GetJob().GetJob(), a.GetJob().GetOutcome()
	var b strings.Builder
	fmt.Fprintf(&b, "Job %d (%s of %s) is %s", j.Id, j.GetSpec().GetName(), j.GetOwner().GetUser(), j.State.Word())
	if j.State != events.JobState_PENDING {
		if n := j.GetAllocation().NodeNames(); len(n) > 0 {
			fmt.Fprintf(&b, " on %s", strings.Join(n, ","))
		}
		if j.Reason != events.Reason_NONE {
			fmt.Fprintf(&b, ": %s", j.Reason.Word())
		}
		if j.ReasonText != "" {
			fmt.Fprintf(&b, " (%s)", j.ReasonText)
		}
		if j.State.Final() {
			fmt.Fprintf(&b, ", exit code %d:%d", j.ExitCode, j.ExitSignal)
		}
		b.WriteString(".\n")
		// What a node had to say about the end is why, where the reason is only a word.
		for _, n := range j.Nodes {
			if n.Text != "" {
				fmt.Fprintf(&b, "  %s: %s\n", n.Node, n.Text)
			}
		}
		return b.String()
	}
	reason, text := j.Reason, j.ReasonText
	if reason == events.Reason_NONE && o != nil {
		reason, text = o.Reason, o.Text
	}
	switch {
	case reason == events.Reason_NONE && o == nil:
		b.WriteString(". No pass has looked at it yet.\n")
	default:
		fmt.Fprintf(&b, ": %s", reason.Word())
		if text != "" {
			fmt.Fprintf(&b, " (%s)", text)
		}
		b.WriteString(".\n")
	}
	if n := j.UnfitRuns; n > 0 && j.Hold == events.HoldKind_NOT_HELD {
		fmt.Fprintf(&b, "A node could not start it, %d times in a row; `stint events %d` says why.\n", n, j.Id)
	}
	for _, k := range o.GetBlockers() {
		fmt.Fprintf(&b, "  %s: %s", k.Reason.Word(), k.Text)
		if k.Need > 0 {
			fmt.Fprintf(&b, " (%d of %d)", k.Have, k.Need)
		}
		b.WriteByte('\n')
	}
	if o.GetStartUs() > 0 {
		at := time.UnixMicro(o.StartUs)
		fmt.Fprintf(&b, "It is expected to start at %s (in %s)", at.Format("2006-01-02T15:04:05"), max(at.Sub(now), 0).Round(time.Second))
		if o.Nodes != "" {
			fmt.Fprintf(&b, " on %s", o.Nodes)
		}
		b.WriteString(".\n")
	}
	for _, d := range j.Dependencies {
		fmt.Fprintf(&b, "  depends on job %d: %s\n", d.GetDependency().GetJob(), strings.ToLower(d.State.String()))
	}
	if n := len(a.Ahead); n > 0 {
		fmt.Fprintf(&b, "Before it in the queue, most urgent first:\n")
		for _, v := range a.Ahead {
			fmt.Fprintf(&b, "  %d %s of %s, priority %d\n", v.Job.Id, v.Job.GetSpec().GetName(), v.Job.GetOwner().GetUser(), v.Job.Priority)
		}
	}
	return b.String()
}
