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
			a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Why{Why: &projections.AskWhy{Job: uint32(id), Thorough: true}}})
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
	stands(&b, a.GetExplanation())
	if n := len(a.Ahead); n > 0 {
		fmt.Fprintf(&b, "Before it in the queue, most urgent first:\n")
		for _, v := range a.Ahead {
			fmt.Fprintf(&b, "  %d %s of %s, priority %d", v.Job.Id, v.Job.GetSpec().GetName(), v.Job.GetOwner().GetUser(), v.Job.Priority)
			if d := int64(v.Job.Priority) - int64(j.Priority); d > 0 && j.Priority > 0 {
				fmt.Fprintf(&b, ", which is %d more", d)
			}
			b.WriteByte('\n')
		}
		if more := int(a.AheadCount) - n; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	remedies(&b, a.GetExplanation())
	return b.String()
}

// stands says how the nodes of each partition stand for the job.
func stands(b *strings.Builder, x *projections.Explanation) {
	for _, p := range x.GetPartitions() {
		total := uint32(0)
		for _, n := range p.Nodes {
			total += n.Count
		}
		fmt.Fprintf(b, "Of the %s of partition %s:\n", count(int(total), "node"), p.Partition)
		for _, n := range p.Nodes {
			fmt.Fprintf(b, "  %d %s", n.Count, n.What)
			if n.Text != "" {
				fmt.Fprintf(b, " (%s)", n.Text)
			}
			fmt.Fprintf(b, ": %s\n", n.Names)
		}
	}
}

// remedies says what would have the job start now.
func remedies(b *strings.Builder, x *projections.Explanation) {
	switch {
	case x == nil:
	case x.StartsNow != "":
		fmt.Fprintf(b, "The next pass starts it on %s.\n", x.StartsNow)
	case len(x.Remedies) == 0:
		b.WriteString("No one change of the job alone would start it now.\n")
	default:
		b.WriteString("Any of these would start it now:\n")
		for _, r := range x.Remedies {
			fmt.Fprintf(b, "  %s    (on %s)\n", r.Change, r.Nodes)
		}
	}
}
