package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"stint/cli/site"
	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// checkBus speaks to the bus itself, as whoever made the streams: that takes the rights of the cluster's owner.
func checkBus(r *report, s *scene) {
	c, err := s.dir.Load()
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.add(note, "bus", "run it as root, or as whose the cluster is", "what is behind the agent is not shown to you")
		return
	case err != nil:
		return
	case c.URL == "":
		r.add(fault, "bus", "look into "+s.dir.Log("bus")+" and "+s.dir.Log("up"), "no bus of this cluster ever listened")
		return
	}
	if c.Embedded {
		judgeCutOff(r, server.CutOff(s.dir.Bus()))
	}
	if len(s.processes()) == 0 && c.Embedded {
		return // checkProcesses says that nothing runs
	}
	r.on("connecting to the bus at %s", c.URL)
	if !greeted(r, s.dir, c) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	keys, err := server.OpenKeys(s.dir.Keys())
	if err != nil {
		r.add(fault, "bus", "", "%v", err)
		return
	}
	role := bus.Role{Kind: bus.Admin}
	seed, err := server.ReadSeed(keys.Path(role))
	if err != nil {
		r.add(fault, "bus", "chmod 600 it if it is there; keys that are missing `stint up` makes anew, and the bus admits them when it starts", "%v", err)
		return
	}
	b, err := jet.Connect(ctx, jet.Options{URL: c.URL, Role: role, Seed: seed, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		do := "look into " + s.dir.Log("bus")
		if errors.Is(err, bus.ErrDenied) {
			do = "the key is not one that the bus knows: restart the bus, which reads them when it starts"
		}
		r.add(fault, "bus", do, "%v", err)
		return
	}
	defer b.Close()
	r.on("asking the bus for its streams")
	kept, err := b.Inspect(ctx)
	if err != nil {
		r.add(fault, "bus", "look into "+s.dir.Log("bus"), "%v", err)
		return
	}
	for _, k := range kept {
		if k.Name != bus.EventsStream {
			continue
		}
		if err := sameLog(s.dir, c, k.Made); err != nil {
			r.add(fault, "log", "stop the cluster, put the log back, and start it; no daemon goes on with another log", "%v", err)
		}
	}
	judgeStreams(r, kept, c.Embedded, time.Now())
	if kept == nil {
		return
	}
	holder, err := b.Leases().Holder(ctx, bus.LeaderLease)
	switch {
	case err != nil:
		r.add(warning, "leader", "", "who has the leader's lease cannot be read: %v", err)
	case holder == "":
		r.add(fault, "leader", "start a controller: `stint up`, or its service; "+s.dir.Log("controller")+" says why one ends", "nobody has the leader's lease: nothing is decided")
	default:
		r.add(well, "leader", "", "%s has the lease", holder)
	}
}

// judgeCutOff tells of what was cut off the log since it could not be read.
func judgeCutOff(r *report, files []string) {
	for _, f := range files {
		entry, at, _ := strings.Cut(strings.TrimPrefix(filepath.Base(f), server.CutPrefix), "-")
		r.add(warning, "log", "nothing, if the power had gone: none of it was acknowledged. Else look after that disk. Then remove the file",
			"from entry %s on the log could not be read when the bus started at %s; what lay there was cut off, and is in %s", entry, at, f)
	}
}

// greeted says what answers where the bus ought to.
func greeted(r *report, dir site.Dir, c *site.Cluster) bool {
	good := false
	addresses := strings.Split(c.URL, ",")
	for _, at := range addresses {
		u, err := url.Parse(at)
		if err != nil {
			r.add(fault, "bus", "correct url in cluster.json", "%q is no address: %v", at, err)
			continue
		}
		level := fault
		if len(addresses) > 1 {
			level = warning // the others may do
		}
		conn, err := net.DialTimeout("tcp", u.Host, time.Second)
		if err != nil {
			r.add(level, "bus", "start it: `stint up`, or its service; "+logOf(dir, "bus")+" says why it ends", "nobody listens at %s: %v", at, plainOp(err))
			continue
		}
		conn.SetDeadline(time.Now().Add(time.Second))
		line, err := bufio.NewReaderSize(conn, 1<<16).ReadString('\n')
		conn.Close()
		switch {
		case err != nil && line == "":
			r.add(level, "bus", "the process that listens there is stopped, or is no bus: ss -ltnp 'sport = :"+u.Port()+"'", "%s takes a connection and says nothing", at)
		case !strings.HasPrefix(line, "INFO {"):
			r.add(level, "bus", "end it, or start the cluster anew: the bus takes another port then; ss -ltnp 'sport = :"+u.Port()+"' says who it is", "another program than a NATS server answers at %s: %q", at, line[:min(len(line), 60)])
		case !strings.Contains(line, `"jetstream":true`):
			r.add(level, "bus", "switch it on in the server's configuration, and see that it can write its store", "the server at %s keeps no streams (JetStream is off)", at)
		default:
			good = true
			r.add(well, "bus", "", "at %s%s", at, ofRange(u.Port(), c.Embedded))
		}
	}
	return good
}

// ofRange says that a port is one that outgoing connections take, which matters at the next start.
func ofRange(port string, embedded bool) string {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	n, perr := strconv.Atoi(port)
	var from, to int
	if err != nil || perr != nil {
		return ""
	}
	if _, err := fmt.Sscan(string(data), &from, &to); err != nil || n < from || n > to || !embedded {
		return ""
	}
	return fmt.Sprintf(" (of the range %d-%d of outgoing connections: if one has it at the next start, the bus takes another)", from, to)
}

// plainOp is an error of the network without the addresses, which were said already.
func plainOp(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// mostFuture is how far a stamp of the log may lie ahead before times contradict each other.
const mostFuture = 2 * time.Second

// judgeStreams says what is wrong with how the log and what goes with it are kept.
func judgeStreams(r *report, kept []jet.Kept, embedded bool, now time.Time) {
	bad := false
	for _, k := range kept {
		switch {
		case k.Missing:
			r.add(fault, "log", "`stint up` makes it; if it was there, restore the bus's folder", "the stream %s is not there", k.Name)
			bad = true
			continue
		case k.Unfit != "":
			r.add(fault, "log", "see deployments/nats for how it must be", "the stream %s exists %s", k.Name, k.Unfit)
			bad = true
		}
		if k.Name == bus.EventsStream && k.Deleted > 0 {
			r.add(fault, "log", "stop the bus, look after its disk, and restore its folder from a copy that is whole", "%d entries between %d and %d are missing", k.Deleted, k.First, k.Last)
			bad = true
		}
		if k.Replicas > 1 && k.Leader == "" {
			r.add(fault, "log", "most of the servers must be there: start them", "the stream %s has no leader: nothing can be appended", k.Name)
			bad = true
		}
		for _, b := range k.Behind {
			r.add(warning, "log", "look after that server", "a replica of the stream %s: %s", k.Name, b)
			bad = true
		}
		if k.Name == bus.EventsStream {
			if ahead := k.LastTime.Sub(now); ahead > mostFuture {
				r.add(fault, "log", "set the clock right; until it has reached that time, what happens is stamped before what came earlier", "the last entry was stamped %s from now: the clock of the bus was set back, or this host's is behind", ahead.Round(time.Second))
				bad = true
			}
			safe := "each entry is on disk before it is acknowledged"
			if !embedded {
				safe = fmt.Sprintf("%s; whether each entry is on disk before it is acknowledged, the servers do not say (sync_interval: always)", count(k.Replicas, "copy"))
				safe = strings.Replace(safe, "copys", "copies", 1)
			}
			last := "it is empty"
			if k.Last > 0 {
				last = fmt.Sprintf("%d entries, the last %s ago", k.Last, now.Sub(k.LastTime).Round(time.Second))
			}
			r.add(well, "log", "", "%s, %d MiB; %s", last, k.Bytes>>20, safe)
		}
	}
	if !bad && len(kept) > 0 {
		r.add(well, "log", "", "its %d streams are as they must be", len(kept))
	}
}
