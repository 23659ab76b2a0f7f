package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// input is what the grammar of a command that asks or controls needs.
func (w *World) input(args []string) slurm.Input {
	return slurm.Input{Args: args, Environ: w.Environ, Now: w.Now, Release: w.Release(), User: w.user()}
}

// user is the caller's name. Whom the host's files do not know, the agent is asked for: it asks the name service too.
func (w *World) user() string {
	uid := strconv.Itoa(syscall.Getuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	if c, err := wire.Dial(w.State); err == nil {
		defer c.Close()
		if resp, err := c.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}}); err == nil {
			return resp.GetWelcome().GetUser()
		}
	}
	return uid
}

// userName is the name of a user, "" if the host does not know it.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return ""
}

// names turns users given by number into names, and says of which there are none.
func (w *World) names(command string, users []string) []string {
	var out []string
	for _, u := range users {
		if n, err := strconv.ParseUint(u, 10, 32); err == nil {
			if name := userName(uint32(n)); name != "" {
				out = append(out, name)
				continue
			}
		} else if userExists(u) || !knowsUsers() {
			out = append(out, u)
			continue
		}
		fmt.Fprintf(w.Stderr, "%s: error: Invalid user: %s\n", command, u)
		out = append(out, u)
	}
	return out
}

// knowsUsers reports whether this program sees all users the host has: a static one does not see LDAP's, so a name that
// is not in the files is no error where the name service is more than files.
func knowsUsers() bool {
	var text string
	data, err := readSmall("/etc/nsswitch.conf")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "passwd:"); ok {
			text = rest
		}
	}
	for _, source := range strings.Fields(text) {
		if source != "files" && source != "systemd" && source != "compat" {
			return false
		}
	}
	return true
}

// clock prints times as the caller wants them.
func (w *World) clock() format.Clock {
	return format.Clock{Now: w.Now, Format: w.Getenv("SLURM_TIME_FORMAT")}
}

// context is what the rows of an answer have in common.
func (w *World) context(cluster string, noConvert bool) format.Context {
	limit := format.DefaultBitstrLen
	if text := w.Getenv("SLURM_BITSTR_LEN"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			limit = n
		}
	}
	return format.Context{
		Clock: w.clock(), Release: w.Release(), Cluster: cluster, BitstrLen: limit, NoConvert: noConvert,
	}
}

// connect returns the connection to the agent, made when it is needed first.
func (w *World) connect(command string) (*wire.Conn, error) {
	if w.conn == nil {
		c, err := w.dial(command)
		if err != nil {
			return nil, err
		}
		w.conn = c
	}
	return w.conn, nil
}

// ask puts one question. A connection that was lost since the last one is made again.
func (w *World) ask(command string, q *projections.Ask) (*projections.Answer, error) {
	for again := w.conn != nil; ; again = false {
		c, err := w.connect(command)
		if err != nil {
			return nil, err
		}
		a, err := c.Ask(q)
		var no *wire.Refused
		if err == nil || errors.As(err, &no) || !again {
			return a, err
		}
		w.conn.Close()
		w.conn = nil
	}
}

// control sends one act.
func (w *World) control(command string, verb events.Verb, body interface{ MarshalVT() ([]byte, error) }) (*wire.Verdict, error) {
	data, err := body.MarshalVT()
	if err != nil {
		return nil, err
	}
	c, err := w.connect(command)
	if err != nil {
		return nil, err
	}
	v, err := c.Control(&wire.Control{Verb: verb, Body: data})
	if err == nil && v.Undecided {
		return nil, errors.New("the request is kept and waits for a controller to judge it")
	}
	return v, err
}

// repeat runs a command again and again for --iterate, with the time before each run.
func (w *World) repeat(seconds int, once func() int) int {
	if seconds == 0 {
		return once()
	}
	for {
		io.WriteString(w.Stdout, format.DateLine(w.Now))
		if code := once(); code != 0 {
			return code
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		fmt.Fprintln(w.Stdout)
		w.Now = time.Now()
	}
}

// other says that a question is for another cluster than the one there is.
func (w *World) other(clusters, own string) error {
	if clusters == "" || clusters == "all" || own == "" {
		return nil
	}
	for _, name := range strings.Split(clusters, ",") {
		if name != own {
			return fmt.Errorf("No cluster '%s' known: this one is %s", name, own)
		}
	}
	return nil
}

// userExists reports whether the host's files know a user by name or number.
func userExists(u string) bool {
	if _, err := user.Lookup(u); err == nil {
		return true
	}
	_, err := user.LookupId(u)
	return err == nil
}

// readSmall reads the beginning of a file, at most 64 KiB.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// clusterName is the cluster's, "" if nobody can tell it now.
func (w *World) clusterName(c *wire.Conn) string {
	a, err := c.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return ""
	}
	return a.GetConfig().GetConfig().GetCluster()
}
