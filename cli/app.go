// Package cli is every face of Stint: the commands with Slurm's names, the stint … commands, and the wiring of the daemons.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"stint/cli/commands"
	"stint/cli/site"
	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/executor/tasks"
)

// Version is Stint's own, which a release may set when it links; the commands with Slurm's names print that of the Slurm
// they speak.
var Version = "0.1.0"

// Build is the version and, if the program knows it, the commit it was built from.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ".dirty"
		}
	}
	return Version + revision + modified
}

// Main runs the program as called and returns its exit code. The name it was called by decides: a command of Slurm's, or
// stint, whose first word may be one.
func Main(args []string) int {
	if len(args) == 0 {
		args = []string{"stint"}
	}
	if len(args) == 2 && args[1] == tasks.Command {
		return tasks.Main()
	}
	if tasks.IsBatch(args) {
		return tasks.BatchMain(args)
	}
	if name := filepath.Base(args[0]); commands.Has(name) {
		return commands.Run(name, args[1:], commands.Process())
	}
	if len(args) > 1 && commands.Has(args[1]) {
		return commands.Run(args[1], args[2:], commands.Process())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx, args)
}

func run(ctx context.Context, args []string) int {
	a := app()
	err := a.RunContext(ctx, flagsFirst(a.Commands, args))
	if err == nil {
		return 0
	}
	var code exitError
	if errors.As(err, &code) {
		if code.text != "" {
			fmt.Fprintln(os.Stderr, "stint: "+code.text)
		}
		return code.code
	}
	fmt.Fprintf(os.Stderr, "stint: %v\n", err)
	return 1
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }

// dirFlag names the directory of the cluster.
func dirFlag() cli.Flag {
	return &cli.StringFlag{Name: "dir", Usage: "keep the cluster's state in `DIR` (default: $STINT_DIR, else /var/lib/stint for root and ~/.local/state/stint for others)", EnvVars: []string{"STINT_DIR"}}
}

// dirOf returns the directory that is meant, absolute.
func dirOf(c *cli.Context) (site.Dir, error) {
	dir := c.String("dir")
	if dir == "" {
		dir = wire.Dir()
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return site.Dir(abs), nil
}

// dial connects to the agent of a cluster. What is to be known while an answer is slow to come goes to stderr.
func dial(dir site.Dir) (*wire.Conn, error) {
	conn, err := wire.Dial(string(dir))
	if err != nil {
		return nil, err
	}
	conn.Note = func(text string) { fmt.Fprintln(os.Stderr, "stint: "+text) }
	return conn, nil
}

// The headings of the help, which lists them in the order of the alphabet.
const (
	running    = "A CLUSTER OF YOUR OWN"
	jobs       = "JOBS AND THEIR STORY"
	slurmNames = "SLURM'S COMMANDS, ALSO BY THEIR OWN NAMES"
	daemons    = "THE DAEMONS, EACH BY ITSELF"
)

// app is the tree of the stint … commands.
func app() *cli.App {
	cli.VersionPrinter = func(*cli.Context) { fmt.Println("stint " + Build()) }
	a := cli.NewApp()
	a.Name = "stint"
	a.Usage = "a workload manager that speaks Slurm and keeps everything it knows in an event log"
	a.UsageText = "stint COMMAND [OPTIONS]\n   stint up && eval \"$(stint env)\" && sbatch job.sh"
	a.Version = Build()
	a.EnableBashCompletion = true
	a.Suggest = true
	a.HideHelpCommand = true
	a.ExitErrHandler = func(*cli.Context, error) {} // main says it, once
	a.Commands = []*cli.Command{
		upCommand(), downCommand(), statusCommand(), planCommand(), envCommand(), linksCommand(), demoCommand(), doctorCommand(),
		completionCommand(), submitCommand(), eventsCommand(), whyCommand(), replayCommand(),
	}
	a.Commands = append(a.Commands, slurmCommands()...)
	a.Commands = append(a.Commands, daemonCommands()...)
	a.OnUsageError = misused
	for _, c := range a.Commands { // that what is not given is off needs no saying
		c.OnUsageError = misused
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true
			}
		}
	}
	a.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return fmt.Errorf("there is no command %q; `stint --help` lists them", c.Args().First())
		}
		return cli.ShowAppHelp(c)
	}
	return a
}

// misused says in one sentence what is wrong with the options of a command, instead of its whole help.
func misused(c *cli.Context, err error, _ bool) error {
	command, flags := "stint", c.App.Flags
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != c.App.Name {
		command, flags = "stint "+c.Command.Name, c.Command.Flags
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		for _, f := range flags {
			names = append(names, f.Names()...)
		}
		text = fmt.Sprintf("there is no option %q", dashed(name))
		if near, ok := slurm.Nearest(strings.TrimPrefix(name, "-"), names); ok {
			text += "; did you mean " + dashed(near) + "?"
		}
	} else if value, name, ok := strings.Cut(strings.TrimPrefix(strings.Replace(text, "boolean ", "", 1), "invalid value "), " for "); ok {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "flag "), ":")
		text = fmt.Sprintf("%s does not take %s", dashed(name), value)
	} else if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		text = dashed(name) + " needs a value"
	}
	return fmt.Errorf("%s (`%s --help` tells its options)", text, command)
}

// dashed is an option as people write it.
func dashed(name string) string {
	name = strings.TrimLeft(name, "-")
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// slurmCommands lists Slurm's names in the help. Main runs them before the tree is asked, since their options are not of
// its grammar.
func slurmCommands() []*cli.Command {
	var out []*cli.Command
	for _, name := range commands.Names() {
		out = append(out, &cli.Command{
			Name: name, Usage: commands.Summary(name), Category: slurmNames, SkipFlagParsing: true, HideHelp: true,
			Action: func(c *cli.Context) error {
				return exitError{code: commands.Run(name, c.Args().Slice(), commands.Process())}
			},
		})
	}
	return out
}
