package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"stint/cli/site"
	"stint/cli/wire"
	"stint/events"
	"stint/events/bus/server"
	"stint/executor"
	"stint/executor/supervisor"
	"stint/ledger/rows"
	"stint/projections"
)

func upCommand() *cli.Command {
	return &cli.Command{
		Name: "up", Usage: "run a cluster on this machine", Category: running,
		Description: "Without options: this machine as one node, its hardware detected, in a partition that takes everything. A cluster that was\n" +
			"there before is taken up again, with its jobs; options that are not given are as they were.\n\n" +
			"Examples: stint up --detach\n          stint up --nodes 'n[1-4]' --cpus 8 --memory 16000 --gres gpu:a100:4\n          stint up --config /etc/slurm/slurm.conf",
		Flags: []cli.Flag{
			dirFlag(),
			&cli.StringFlag{Name: "config", Aliases: []string{"f"}, Usage: "read a site's `FILE` slurm.conf, and gres.conf and cgroup.conf beside it"},
			&cli.StringFlag{Name: "nodes", Usage: "play the nodes of this `HOSTLIST`, each with its own executor and host name"},
			&cli.UintFlag{Name: "cpus", Usage: "the `NUMBER` of CPUs of each node", DefaultText: "what the machine has"},
			&cli.Uint64Flag{Name: "memory", Usage: "the memory of each node in `MIB`", DefaultText: "what the machine has"},
			&cli.StringFlag{Name: "gres", Usage: "simulated devices of each node, as `NAME:TYPE:COUNT`, for instance gpu:a100:4"},
			&cli.BoolFlag{Name: "virtual", Usage: "with --config: play all nodes of the file on this machine"},
			&cli.StringFlag{Name: "bus", Usage: "connect to the servers of a bus elsewhere, as `URLS` with commas between, instead of running one; their keys are in the folder keys", DefaultText: "one in this cluster"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "go on in the background and return when the cluster is ready"},
			&cli.BoolFlag{Name: "split", Usage: "run bus, controller, agent and ledger as a process each"},
			&cli.DurationFlag{Name: "wait", Usage: "how long to wait for the cluster to be ready, as `DURATION`", Value: time.Minute},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log every decision"},
			logFormatFlag(),
			&cli.StringFlag{Name: "cgroup-under", Hidden: true, Usage: "make the nodes' control groups in `DIR`"},
			&cli.IntFlag{Name: "ready-fd", Hidden: true, Usage: "say on this descriptor when the cluster is ready"},
		},
		Action: up,
	}
}

func up(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("up takes no argument %q", c.Args().First())
	}
	dir, err := ownHomeOf(c)
	if err != nil {
		return err
	}
	if err := startable(dir); err != nil {
		return err
	}
	if c.Bool("detach") {
		return detach(c, dir)
	}
	u := &upper{dir: dir, split: c.Bool("split"), verbose: c.Bool("verbose"), form: c.String("log-format"), log: logger(os.Stderr, c.Bool("verbose"), c.String("log-format"))}
	slog.SetDefault(u.log)
	var ready io.WriteCloser
	if fd := c.Int("ready-fd"); fd > 0 {
		syscall.CloseOnExec(fd) // whoever waits on it waits for us, not for daemons that outlive us
		ready = os.NewFile(uintptr(fd), "ready")
	}
	if err := u.prepare(c); err != nil {
		return err
	}
	defer u.lock.Close()
	return u.run(c.Context, c.Duration("wait"), func(text string) {
		if ready != nil {
			io.WriteString(ready, text)
			ready.Close()
			return
		}
		fmt.Fprint(c.App.Writer, text)
	})
}

// upper is one run of `stint up`.
type upper struct {
	dir     site.Dir
	lock    *os.File
	host    *host
	config  *events.Config
	split   bool
	verbose bool
	form    string // of logs
	saved   bool   // there is a cluster in the directory
	log     *slog.Logger

	mu       sync.Mutex
	children []*child
	server   *server.Server
	started  time.Time
}

// prepare takes the directory and settles what the cluster is to be.
func (u *upper) prepare(c *cli.Context) (err error) {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	there := exists(string(u.dir))
	if err := u.dir.Make(mode); err != nil {
		return err
	}
	if u.lock, err = u.dir.Lock(); err != nil {
		return err
	}
	before, err := u.dir.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if before == nil {
		defer func() {
			if err != nil && !u.saved {
				u.dir.Unmake(!there)
			}
		}()
	}
	next := &site.Cluster{Embedded: true}
	if before != nil {
		*next = *before
	}
	if c.IsSet("config") && (c.IsSet("nodes") || c.IsSet("cpus") || c.IsSet("memory") || c.IsSet("gres")) {
		return errors.New("--config says what the nodes are; leave out --nodes, --cpus, --memory and --gres")
	}
	if c.IsSet("bus") {
		if next.URL, err = busElsewhere(c.String("bus")); err != nil {
			return err
		}
		next.Embedded = false
	}
	o := &next.Options
	if c.IsSet("nodes") || c.IsSet("cpus") || c.IsSet("memory") || c.IsSet("gres") {
		next.ConfFile = ""
		if c.IsSet("nodes") {
			o.Nodes = c.String("nodes")
		}
		if c.IsSet("cpus") {
			if o.CPUs = uint32(min(c.Uint("cpus"), math.MaxUint32)); o.CPUs == 0 {
				return errors.New("--cpus 0: a node has at least one; leave --cpus out for as many as the machine has")
			}
		}
		if c.IsSet("memory") {
			if o.Memory = c.Uint64("memory"); o.Memory == 0 {
				return errors.New("--memory 0: a node has at least 1 MiB; leave --memory out for as much as the machine has")
			}
		}
		if c.IsSet("gres") {
			o.Gres = c.String("gres")
		}
	}
	if c.IsSet("config") {
		if next.ConfFile, err = filepath.Abs(c.String("config")); err != nil {
			return err
		}
		next.Options = site.Options{}
	}
	if next.ConfFile != "" {
		var notes []string
		u.config, notes, err = site.ReadConf(next.ConfFile, uint32(os.Geteuid()))
		for _, n := range notes {
			u.log.Warn(n)
		}
	} else {
		u.config, err = site.OneMachine(next.Options, uint32(os.Geteuid()))
	}
	if err != nil {
		return err
	}
	next.Asked = c.Bool("virtual") || before != nil && before.Asked && next.ConfFile == before.ConfFile
	if next.Nodes, next.Virtual, err = site.LocalNodes(u.config, next.Asked); err != nil {
		return err
	}
	switch {
	case c.IsSet("cgroup-under"):
		next.Under = c.String("cgroup-under")
	case before == nil && string(u.dir) != "/var/lib/stint": // a second cluster of the machine must not meet the first's groups
		next.Under = underOf(string(u.dir))
	}
	next.Name, next.Compat = u.config.Cluster, u.config.Compat
	if err := u.dir.Save(next); err != nil {
		return err
	}
	u.saved = true
	if err := os.WriteFile(filepath.Join(string(u.dir), wire.CompatFile), []byte(next.Compat+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing which Slurm is emulated: %w", err)
	}
	if _, err := binDir(string(u.dir)); err != nil {
		return fmt.Errorf("putting the command names in place: %w", err)
	}
	u.host = &host{dir: u.dir, cluster: next, log: u.log, several: !u.split}
	return nil
}

// run runs the daemons until ctx ends, then stops them, jobs and their supervisors apart.
func (u *upper) run(ctx context.Context, patience time.Duration, ready func(string)) error {
	if removed, err := executor.RemoveStaleDevices(); err != nil {
		u.log.Warn("simulated GPUs of a cluster that is gone stay", "error", err)
	} else if len(removed) > 0 {
		u.log.Info("removed the simulated GPUs of nodes whose state folder is gone", "folders", removed)
	}
	u.started = time.Now()
	frugal(ctx)
	var front, back sync.WaitGroup // commands and decisions end before the bus does
	frontCtx, stopFront := context.WithCancel(ctx)
	defer stopFront()
	backCtx, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	signal.Ignore(site.RereadSignal) // until there is somebody to heed it
	nodes := newNodeSet(u, &front, frontCtx)
	if err := u.save(); err != nil {
		return err
	}
	if !u.host.cluster.Embedded {
		if err := u.host.provisionElsewhere(ctx, patience); err != nil {
			return err
		}
	}
	switch {
	case u.split && u.host.cluster.Embedded:
		u.spawn(&back, backCtx, &child{name: "bus", args: u.args("bus"), log: u.dir.Log("bus")})
	case u.host.cluster.Embedded:
		s, err := u.host.startBus(ctx)
		if err != nil {
			return err
		}
		u.server = s
		defer s.Stop()
		if !s.Synced() {
			u.log.Warn("the bus does not wait for the disk: what is acknowledged may be lost with the power")
		}
	}
	if u.split {
		for _, name := range []string{"controller", "ledger", "agent"} {
			u.spawn(&front, frontCtx, &child{name: name, args: u.args(name), log: u.dir.Log(name)})
		}
	} else {
		u.role(&front, frontCtx, "controller", u.host.runController)
		u.role(&front, frontCtx, "ledger", u.host.runLedger)
		u.role(&front, frontCtx, "agent", u.host.runAgent)
	}
	u.answers(frontCtx)
	nodes.start(u.host.cluster.Nodes)
	heedReread(frontCtx, u.dir, u.log, nodes.reread)
	text, err := u.settle(ctx, patience)
	switch {
	case err == nil:
		ready(text)
	case errors.Is(err, errRefused):
	case ctx.Err() == nil:
		u.log.Error("the cluster is not ready", "error", err)
		ready("")
	}
	if !errors.Is(err, errRefused) {
		err = nil
		<-ctx.Done()
	}
	u.log.Info("stopping; jobs go on")
	stopFront()
	front.Wait()
	for _, n := range nodes.names() {
		stopSupervisor(supervisor.SocketPath(u.dir.Node(n)), supervisor.StopMode_REFUSE_IF_BUSY)
	}
	stopBack()
	back.Wait()
	os.Remove(filepath.Join(string(u.dir), "up.json"))
	return err
}

func (u *upper) args(words ...string) []string {
	args := append(words, "--dir", string(u.dir))
	if u.verbose {
		args = append(args, "--verbose")
	}
	if u.form == jsonLog {
		args = append(args, "--log-format", u.form)
	}
	return args
}

func (u *upper) spawn(group *sync.WaitGroup, ctx context.Context, c *child) {
	u.mu.Lock()
	u.children = append(u.children, c)
	u.mu.Unlock()
	group.Go(func() {
		c.run(ctx, u.log, func() {
			if err := u.save(); err != nil {
				u.log.Warn("writing down the processes", "error", err)
			}
		})
	})
}

// role runs a daemon in this process, again and again until ctx ends.
func (u *upper) role(group *sync.WaitGroup, ctx context.Context, name string, run func(context.Context, *server.Server) error) {
	group.Go(func() {
		for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
			err := run(ctx, u.server)
			if ctx.Err() != nil {
				return
			}
			u.log.Error("a daemon ended and is started again", "daemon", name, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
}

// pidOf returns the process of a child, 0 if it does not run.
func (u *upper) pidOf(name string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.children {
		if c.name == name {
			return c.Pid()
		}
	}
	return 0
}

// save tells who runs.
func (u *upper) save() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := &site.Processes{Pid: os.Getpid(), Version: Build(), Started: u.started.Format(time.RFC3339), Children: map[string]int{}}
	for _, c := range u.children {
		if pid := c.Pid(); pid != 0 {
			p.Children[c.name] = pid
		}
	}
	return u.dir.SaveProcesses(p)
}

// answersTime is how long the processes of nodes wait for the controller.
const answersTime = 2 * time.Second

// answers waits until the controller answers, for a while: what a dozen processes of nodes take to start, it and those who ask it have first.
func (u *upper) answers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answersTime)
	defer cancel()
	_ = poll(ctx, func() error { // whether it did is nothing that nodes depend on
		conn, err := wire.Dial(string(u.dir))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Ask(&projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
		return err
	})
}

// settle waits until the cluster has its configuration and all its nodes, and says what it is.
func (u *upper) settle(ctx context.Context, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var conn *wire.Conn
	if err := poll(ctx, func() (err error) { conn, err = wire.Dial(string(u.dir)); return err }); err != nil {
		return "", err
	}
	defer conn.Close()
	if err := poll(ctx, func() error { return u.configure(conn) }); err != nil {
		return "", err
	}
	var text string
	err := poll(ctx, func() error {
		a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Status{Status: &projections.AskStatus{}}})
		if err != nil {
			return err
		}
		s := a.GetStatus()
		if s.NodesUp+s.NodesDown < uint64(len(u.host.cluster.Nodes)) { // those that are down stay so until somebody resumes them
			return fmt.Errorf("%d of %d nodes are up", s.NodesUp, s.Nodes)
		}
		if _, err := conn.Account(&rows.Ask{What: &rows.Ask_Status{Status: &rows.AskStatus{}}}); err != nil {
			return err
		}
		text = fmt.Sprintf("The cluster %s runs from %s: %s.\n", u.host.cluster.Name, u.dir, count(int(s.NodesUp), "node"))
		if s.NodesDown > 0 {
			text += fmt.Sprintf("Besides, %s set down by an administrator, until resumed: `stint nodes` says which and why.\n", count(int(s.NodesDown), "node"))
		}
		if os.Geteuid() != 0 {
			text += "It serves you alone, and its jobs are not held to their CPUs, memory and devices: that takes root.\n"
		}
		return nil
	})
	return text, err
}

// errRefused: the configuration is not one that the cluster can take over; trying again changes nothing.
var errRefused = errors.New("the configuration was refused")

// configure has the configuration taken over into the log if it is another than was taken over last. Running `stint up` is the
// order to. What administrators changed with scontrol since holds until the file says otherwise, or is read again.
func (u *upper) configure(conn *wire.Conn) error {
	a, err := conn.Ask(&projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}})
	if err != nil {
		return err
	}
	got := a.GetConfig()
	last := got.GetConfig()
	if got.GetGiven() != nil {
		last = got.GetGiven()
	}
	if got.GetSeq() != 0 && last.EqualVT(u.config) {
		return nil
	}
	body, err := u.config.MarshalVT()
	if err != nil {
		return err
	}
	v, err := conn.Control(&wire.Control{Verb: events.Verb_CONFIGURE, Body: body})
	switch {
	case err != nil:
		return err
	case v.Undecided:
		return errors.New("the configuration waits for a controller to take it over")
	case v.Code != events.Code_OK:
		return fmt.Errorf("%w: %s", errRefused, v.Text)
	}
	return nil
}

// poll tries until it succeeds or ctx ends; the error is the last try's.
func poll(ctx context.Context, try func() error) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := try()
		if err == nil || errors.Is(err, errRefused) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// detach runs `stint up` in the background and waits until it is ready.
func detach(c *cli.Context, dir site.Dir) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	there := exists(string(dir))
	if err := dir.Make(mode); err != nil {
		return err
	}
	out, err := openLog(dir.Log("up"))
	if err != nil {
		return err
	}
	defer out.Close()
	begin, _ := out.Seek(0, io.SeekEnd)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	args := []string{self, "up", "--dir", string(dir), "--ready-fd", "3", "--wait", c.Duration("wait").String()}
	for _, name := range []string{"nodes", "gres", "cpus", "memory", "bus", "cgroup-under", "log-format"} {
		if c.IsSet(name) {
			args = append(args, "--"+name, fmt.Sprint(c.Value(name)))
		}
	}
	if c.IsSet("config") {
		path, err := filepath.Abs(c.String("config"))
		if err != nil {
			return err
		}
		args = append(args, "--config", path)
	}
	for _, name := range []string{"virtual", "split", "verbose"} {
		if c.Bool(name) {
			args = append(args, "--"+name)
		}
	}
	p, err := os.StartProcess(self, args, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{null, out, out, w}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	null.Close()
	if err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() { p.Wait(); close(exited) }()
	text, _ := io.ReadAll(r)
	if len(text) > 0 {
		fmt.Fprint(c.App.Writer, string(text))
		return nil
	}
	select {
	case <-exited:
		why := fmt.Errorf("the cluster did not start:\n%s", strings.TrimSpace(tail(dir.Log("up"), begin)))
		if _, err := dir.Load(); errors.Is(err, fs.ErrNotExist) { // nothing came of it
			os.Remove(dir.Log("up"))
			dir.Unmake(!there)
		}
		return why
	case <-time.After(time.Second):
		return fmt.Errorf("the cluster was not ready within %s; it goes on trying, see %s and `stint status`", c.Duration("wait"), dir.Log("up"))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail returns what was written into a log from an offset on, the last 2,000 bytes of it.
func tail(name string, from int64) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	f.Seek(from, io.SeekStart)
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(data[max(0, len(data)-2000):])
}
