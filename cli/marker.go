package cli

import (
	"context"
	"fmt"
	"time"

	"stint/cli/site"
	"stint/events/bus/jet"
)

// marker is how cluster.json names a log: by when its stream was made, which a stream that is made anew in an empty folder does not repeat.
func marker(made time.Time) string {
	if made.IsZero() {
		return ""
	}
	return made.UTC().Format(time.RFC3339Nano)
}

// sameLog says what is wrong if the log on the bus, which was made at that time (zero: it is not there), is not the cluster's. To go on with it would
// give out job ids a second time and end what runs as unknown, so no daemon does.
func sameLog(dir site.Dir, c *site.Cluster, made time.Time) error {
	if c.Log == "" || c.Log == marker(made) {
		return nil
	}
	what := "another log, made " + marker(made)
	if made.IsZero() {
		what = "no log"
	}
	where := c.URL
	if c.Embedded {
		where = dir.Bus()
	}
	return fmt.Errorf("this cluster's log was made %s, and there is %s in %s: it was moved, emptied or replaced. Put it back and start again; %s", c.Log, what, where, giveUp(dir))
}

// giveUp is what to do where the log is lost for good.
func giveUp(dir site.Dir) string {
	return "if it is lost for good, begin a new cluster in another folder, or `mv " + string(dir) + " " + string(dir) + ".old`: its jobs and their ids are in that log"
}

// holdTo holds a daemon to the log that its cluster was made with, as far as the bus tells.
func (h *host) holdTo(ctx context.Context, b *jet.Bus) error {
	made, err := b.Made(ctx)
	if err != nil {
		return nil // what is wrong then, its work finds
	}
	return sameLog(h.dir, h.cluster, made)
}

// provision makes the streams, unless there is another log than the cluster's, and writes down which log it is.
func (h *host) provision(ctx context.Context, b *jet.Bus, l jet.Layout) (warnings []string, err error) {
	if err := h.holdTo(ctx, b); err != nil {
		return nil, err
	}
	if warnings, err = b.Provision(ctx, l); err != nil || h.cluster.Log != "" {
		return warnings, err
	}
	made, err := b.Made(ctx)
	if err != nil {
		return warnings, err
	}
	h.cluster.Log = marker(made)
	return warnings, h.dir.Save(h.cluster)
}
