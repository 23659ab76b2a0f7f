package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/wire"
	"stint/ledger/rows"
	"stint/projections/story"
)

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "tell the story of a job, or of the cluster, from the log", ArgsUsage: "[JOB]", Category: jobs,
		Description: "Who did what, when and why, one line each, in the order of the log.\n\nExamples: stint events 81_5\n          stint events --follow\n          stint events 81 --json",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as more happens"},
			&cli.BoolFlag{Name: "json", Usage: "print the facts themselves, one JSON object a line"},
			&cli.BoolFlag{Name: "void", Usage: "only what had no effect, and why"},
			&cli.Uint64Flag{Name: "after", Usage: "begin behind this `SEQUENCE` of the log", DefaultText: "at its beginning"},
		},
		Action: func(c *cli.Context) error {
			q := &rows.AskStory{AfterSeq: c.Uint64("after"), Raw: c.Bool("json"), Void: c.Bool("void")}
			if c.NArg() > 1 {
				return errors.New("events takes one job")
			}
			if c.NArg() == 1 {
				var err error
				if q.Job, q.Task, q.HasTask, err = parseJob(c.Args().First()); err != nil {
					return err
				}
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
			return tell(c, conn, q)
		},
	}
}

// parseJob reads 81 or 81_5: a job, or an array's task.
func parseJob(text string) (job, task uint32, isTask bool, err error) {
	id, index, isTask := strings.Cut(text, "_")
	n, err := strconv.ParseUint(id, 10, 32)
	if err == nil && isTask {
		var t uint64
		t, err = strconv.ParseUint(index, 10, 32)
		task = uint32(t)
	}
	if err != nil || n == 0 {
		return 0, 0, false, fmt.Errorf("%q is not a job: write its id, 81, or that of an array task, 81_5", text)
	}
	return uint32(n), task, isTask, nil
}

func tell(c *cli.Context, conn *wire.Conn, q *rows.AskStory) error {
	follow, told := c.Bool("follow"), false
	for c.Context.Err() == nil {
		if follow && told {
			q.WaitMs = 30_000
		}
		a, err := conn.Account(&rows.Ask{What: &rows.Ask_Story{Story: q}})
		if err != nil {
			return err
		}
		for _, l := range a.Story {
			if c.Bool("void") && !l.Void {
				continue
			}
			if err := printStory(c.App.Writer, l, c.Bool("json")); err != nil {
				return nil // nobody reads any more
			}
		}
		end := a.StorySeq == 0 || a.StorySeq == q.AfterSeq || a.StorySeq >= a.Seq
		if len(a.Story) == 0 && !told && !follow && !q.Void && q.Job != 0 && q.AfterSeq == 0 {
			return fmt.Errorf("the log knows no job %d", q.Job)
		}
		if a.StorySeq > q.AfterSeq {
			q.AfterSeq = a.StorySeq
		}
		told = true
		if end && !follow {
			return nil
		}
	}
	return nil
}

func printStory(w io.Writer, l *rows.StoryLine, raw bool) error {
	if raw {
		data, err := json.Marshal(storyJSON{
			Seq: l.Seq, Index: l.Index, At: time.UnixMicro(l.AtUs).UTC().Format("2006-01-02T15:04:05.000000Z"), Subject: l.Subject, Job: l.Job, Label: l.Label,
			Kind: l.Kind, Who: l.Who, What: l.What, Why: l.Why, Node: l.Node, Void: l.Void, Fact: json.RawMessage(orNull(l.Raw)),
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", data)
		return err
	}
	why := l.Why
	if why != "" {
		why = " (" + why + ")"
	}
	void := ""
	if l.Void {
		void = "void: "
	}
	label := l.Label
	if label == "" && l.Job != 0 {
		label = strconv.FormatUint(uint64(l.Job), 10)
	}
	_, err := fmt.Fprintf(w, "%8d  %s  %-10s %-12s %-18s %s%s%s\n", l.Seq, time.UnixMicro(l.AtUs).Format("2006-01-02T15:04:05.000"), label, l.Kind,
		story.Clean(l.Who), void, story.Clean(l.What), story.Clean(why))
	return err
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

type storyJSON struct {
	Seq     uint64          `json:"seq"`
	Index   uint32          `json:"index"`
	At      string          `json:"at"`
	Subject string          `json:"subject"`
	Job     uint32          `json:"job,omitempty"`
	Label   string          `json:"label,omitempty"`
	Kind    string          `json:"kind"`
	Who     string          `json:"who,omitempty"`
	What    string          `json:"what"`
	Why     string          `json:"why,omitempty"`
	Node    string          `json:"node,omitempty"`
	Void    bool            `json:"void,omitempty"`
	Fact    json.RawMessage `json:"fact"`
}
