package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"stint/cli/commands"
)

func submitCommand() *cli.Command {
	return &cli.Command{
		Name: "submit", Usage: "submit many jobs, one JSON object a line", ArgsUsage: "[FILE|-]", Category: jobs,
		Description: "The keys are sbatch's long options; script (its text), file (its path) or wrap (a command) says what is run, args and env go with\n" +
			"it. One line of JSON is printed for each, with the job's id or an error. It ends with 1 if any was refused.\n\n" +
			"Example: for i in 1 2 3; do echo '{\"wrap\":\"./step '$i'\",\"cpus-per-task\":2,\"time\":\"10\"}'; done | stint submit",
		Flags: []cli.Flag{dirFlag()},
		Action: func(c *cli.Context) error {
			w := commands.Process()
			if dir := c.String("dir"); dir != "" {
				w.State = dir
			}
			var in io.Reader = os.Stdin
			switch {
			case c.NArg() > 1:
				return fmt.Errorf("submit takes one file, not %d", c.NArg())
			case c.NArg() == 1 && c.Args().First() != "-":
				f, err := os.Open(c.Args().First())
				if err != nil {
					return fmt.Errorf("opening the jobs: %w", err)
				}
				defer f.Close()
				in = f
			}
			b := &commands.Bulk{World: w, In: in}
			live := term.IsTerminal(int(os.Stderr.Fd()))
			if live {
				b.Progress = func(done, refused int) { fmt.Fprintf(os.Stderr, "\r%d submitted, %d refused ", done-refused, refused) }
			}
			refused, err := b.Run()
			if live {
				fmt.Fprintln(os.Stderr)
			}
			if err != nil {
				return err
			}
			if refused > 0 {
				return exitError{code: 1, text: is(refused, "job was refused; the reason is", "jobs were refused; the reasons are") + " in the output"}
			}
			return nil
		},
	}
}
