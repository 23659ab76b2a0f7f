package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
	"stint/projections/story"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "say why a job waits, with numbers, or how it ended", ArgsUsage: "JOB", Category: jobs,
		Description: "Of a job that waits it tells how the nodes stand for it, what is before it, when it is expected to start, and which\n" +
			"change of the job alone would start it now. It changes nothing.\n\nExamples: stint why 81\n          stint why 81_5 --json",
		Flags: []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("say which job: stint why 81")
			}
			q := &projections.AskWhy{Thorough: true}
			var err error
			if q.Job, q.Task, q.HasTask, err = parseJob(c.Args().First()); err != nil {
				return err
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
			a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Why{Why: q}})
			if err != nil {
				return fmt.Errorf("%w; `stint events %s` may know", err, c.Args().First())
			}
			if c.Bool("json") {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				return e.Encode(whyOf(a.GetWhy()))
			}
			fmt.Fprint(c.App.Writer, explain(a.GetWhy(), q, time.UnixMicro(a.NowUs)))
			return nil
		},
	}
}

// explain says in sentences why a job is where it is.
func explain(a *projections.AnswerWhy, q *projections.AskWhy, now time.Time) string {
	j, o := a.GetJob().GetJob(), a.GetJob().GetOutcome()
	var b strings.Builder
	fmt.Fprintf(&b, "Job %s (%s of %s", jobLabel(a.GetJob()), story.Clean(j.GetSpec().GetName()), j.GetOwner().GetUser())
	if q.GetHasTask() && !j.GetHasTask() {
		fmt.Fprintf(&b, "; of its tasks, %d has not begun and waits with the others", q.Task)
	}
	fmt.Fprintf(&b, ") is %s", j.State.Word())
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
		fmt.Fprintf(&b, "A node could not start it, %d times in a row; `stint events %s` says why.\n", n, jobLabel(a.GetJob()))
	}
	if reason == events.Reason_BEGIN_TIME && j.EligibleUs > 0 {
		at := time.UnixMicro(j.EligibleUs)
		fmt.Fprintf(&b, "It may not begin before %s (in %s).\n", at.Format("2006-01-02T15:04:05"), max(at.Sub(now), 0).Round(time.Second))
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
			fmt.Fprintf(&b, "  %s %s of %s, priority %d", jobLabel(v), story.Clean(v.Job.GetSpec().GetName()), v.Job.GetOwner().GetUser(), v.Job.Priority)
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

// jobLabel is a job as people name it: 81, 81_5, 81_[6-9].
func jobLabel(v *projections.JobView) string {
	return format.Job{Job: v.GetJob(), Array: v.GetArray(), Context: &format.Context{BitstrLen: format.DefaultBitstrLen}, Task: -1}.Label()
}
