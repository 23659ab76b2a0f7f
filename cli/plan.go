package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"stint/cli/site"
	"stint/events"
	"stint/events/bus"
	"stint/events/bus/server"
	"stint/projections"
	"stint/scheduler/plan"
	"stint/scheduler/replay"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "say what a configuration would change, before it is taken over", ArgsUsage: "[FILE]", Category: running,
		Description: "FILE is a slurm.conf, with gres.conf and cgroup.conf beside it; without one it is the file the cluster was made from. It tells\n" +
			"which settings, nodes and partitions differ from those in force, and which jobs would start, wait, run or end otherwise, by\n" +
			"the code that would decide it. Nodes that are new, or built otherwise, are taken to be as the file has them. Nothing is\n" +
			"changed: `scontrol reconfigure` does that. It ends with 1 if the configuration would be refused. It reads the log itself,\n" +
			"so it needs the rights of whoever runs the cluster; the cluster may be up or down.\n\nExample: stint plan /etc/slurm/slurm.conf.new",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: planConfiguration,
	}
}

func planConfiguration(c *cli.Context) error {
	if c.NArg() > 1 {
		return errors.New("plan takes one file")
	}
	dir, err := ownHomeOf(c)
	if err != nil {
		return err
	}
	h, err := openHost(dir, logger(os.Stderr, false, textLog))
	if err != nil {
		return err
	}
	next, err := nextConfig(dir, h.cluster, c.Args().First())
	if err != nil {
		return err
	}
	var state *projections.Cluster
	err = h.atRest(c.Context, func(b bus.Bus, _ *server.Server) (err error) {
		var progress func(uint64)
		if term.IsTerminal(int(os.Stderr.Fd())) {
			progress = func(seq uint64) { fmt.Fprintf(os.Stderr, "\rfolded up to %d ", seq) }
			defer fmt.Fprint(os.Stderr, "\r\033[K")
		}
		state, err = replay.Fold(c.Context, replay.From(b.Events()), 0, progress)
		return err
	})
	if err != nil {
		return err
	}
	report, err := plan.Compare(state, next, time.Now().UnixMicro())
	if err != nil {
		return err
	}
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return err
		}
	} else {
		report.Print(c.App.Writer, func(us int64) string { return time.UnixMicro(us).Format("2006-01-02T15:04:05") })
		if report.Refused == "" && !report.Same() {
			fmt.Fprintln(c.App.Writer, "Nothing has been changed; `scontrol reconfigure` takes over the cluster's own file.")
		}
	}
	if report.Refused != "" {
		return exitError{code: 1}
	}
	return nil
}

// nextConfig reads the configuration in file, or the one the cluster is made from, as a reconfiguration would.
func nextConfig(dir site.Dir, c *site.Cluster, file string) (*events.Config, error) {
	if file != "" {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no file %s", path)
		}
		c.ConfFile = path
	}
	info, err := os.Stat(string(dir))
	if err != nil {
		return nil, err
	}
	config, notes, err := site.Reread(c, info.Sys().(*syscall.Stat_t).Uid)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, n)
	}
	return config, nil
}
