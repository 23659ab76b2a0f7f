package cli

import (
	"stint/cli/site"

	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"
)

// daemonCommands are the daemons, each by itself: `stint up` runs them, and so does a site that keeps them apart.
func daemonCommands() []*cli.Command {
	daemon := func(name, usage, example string, run func(ctx context.Context, h *host) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, Category: daemons,
			Description: "It works until it is told to stop by SIGTERM. What it needs to know is in the directory of the cluster, which `stint up` made.\n\nExample: " + example,
			Flags:       daemonFlags(),
			Action: func(c *cli.Context) error {
				h, ctx, err := daemonOf(c, name)
				if err != nil {
					return err
				}
				return quiet(ctx, run(ctx, h))
			},
		}
	}
	perNode := func(name, usage string, run func(ctx context.Context, h *host, node string) error) *cli.Command {
		cmd := daemon(name, usage, "stint "+name+" --node n1", nil)
		cmd.Flags = append(cmd.Flags, &cli.StringFlag{Name: "node", Usage: "the `NAME` of the node", Required: true})
		cmd.Action = func(c *cli.Context) error {
			h, ctx, err := daemonOf(c, name)
			if err != nil {
				return err
			}
			return quiet(ctx, run(ctx, h, c.String("node")))
		}
		return cmd
	}
	return []*cli.Command{
		daemon("bus", "the log: an embedded NATS server with JetStream", "stint bus --dir /var/lib/stint", func(ctx context.Context, h *host) error {
			if !h.cluster.Embedded {
				return fmt.Errorf("the cluster in %s uses the bus at %s and has none of its own; `stint up --bus` says which", h.dir, h.cluster.URL)
			}
			s, err := h.startBus(ctx)
			if err != nil {
				return err
			}
			heedReread(ctx, h.dir, h.log, func(c *site.Cluster) error { return admitNodes(s, c.Nodes) })
			h.log.Info("serving", "url", s.URL(), "synced", s.Synced())
			<-ctx.Done()
			s.Stop()
			return nil
		}),
		daemon("controller", "folds the log, answers questions, decides while it leads", "stint controller", func(ctx context.Context, h *host) error {
			return h.runController(ctx, nil)
		}),
		daemon("agent", "the socket that this host's commands speak to", "stint agent", func(ctx context.Context, h *host) error {
			return h.runAgent(ctx, nil)
		}),
		daemon("ledger", "follows the log into the tables of accounting", "stint ledger", func(ctx context.Context, h *host) error {
			return h.runLedger(ctx, nil)
		}),
		perNode("executor", "one node's link to the log: runs what the log says should run there", func(ctx context.Context, h *host, node string) error {
			return h.runExecutor(ctx, node)
		}),
		perNode("supervisor", "the parent of one node's job steps", func(ctx context.Context, h *host, node string) error {
			return h.runSupervisor(ctx, node)
		}),
	}
}

// quiet is the error of a daemon that has ended, and none if it was told to.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func daemonFlags() []cli.Flag {
	return []cli.Flag{
		dirFlag(),
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log every decision"},
		logFormatFlag(),
		&cli.BoolFlag{Name: "lifeline", Hidden: true, Usage: "end when descriptor 3 is closed"},
	}
}

func daemonOf(c *cli.Context, name string) (*host, context.Context, error) {
	if c.NArg() > 0 {
		return nil, nil, fmt.Errorf("%s takes no argument %q", name, c.Args().First())
	}
	dir, err := homeOf(c)
	if err != nil {
		return nil, nil, err
	}
	ctx := c.Context
	if c.Bool("lifeline") {
		ctx = heed(ctx)
	}
	log := logger(os.Stderr, c.Bool("verbose"), c.String("log-format")).With("daemon", name)
	slog.SetDefault(log)
	frugal(ctx)
	h, err := openHost(dir, log)
	return h, ctx, err
}
