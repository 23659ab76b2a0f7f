package commands

import (
	"bytes"
	"compress/flate"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events/hostlist"
	"stint/executor/tasks"
)

func sbcast(args []string, w *World) int {
	s, err := slurm.ReadSbcast(w.input(args))
	switch {
	case err != nil:
		return w.complain("sbcast", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	b := &broadcast{w: w, s: s, name: "sbcast"}
	return b.run()
}

// broadcast is one sbcast: it has a process started on each node, which takes the file in as the job's user and in its control group.
type broadcast struct {
	w      *World
	s      *slurm.Sbcast
	name   string // of the command
	byNode bool   // the file has another name on each node, with the node's at its end
	file   *os.File
	parts  []*tasks.Part
	peers  []*tasks.Peer // in the order of parts
	token  []byte
	code   int
	mu     sync.Mutex
}

func (b *broadcast) fail(code int, format string, args ...any) int {
	b.w.complain(b.name, fmt.Errorf(format, args...))
	return code
}

// noJob is the exit code for a job that is not there, or a file that cannot be read.
const noJob = 255

func (b *broadcast) run() int {
	path := b.s.Source
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.w.Dir, path)
	}
	var err error
	if b.file, err = os.Open(path); err != nil {
		return b.fail(noJob, "Can't open `%s': %v", b.s.Source, plain(err))
	}
	defer b.file.Close()
	info, err := b.file.Stat()
	switch {
	case err != nil:
		return b.fail(noJob, "%s: %v", b.s.Source, plain(err))
	case !info.Mode().IsRegular():
		return b.fail(noJob, "%s is no plain file", b.s.Source)
	}
	if code := b.gather(); code != 0 {
		return code
	}
	defer func() {
		for _, p := range b.peers {
			if p != nil {
				p.Close()
			}
		}
	}()
	if b.s.Verbose > 0 {
		names := make([]string, len(b.parts))
		for i, p := range b.parts {
			names[i] = p.Node
		}
		fmt.Fprintf(b.w.Stderr, "sbcast: source     = %s\nsbcast: dest       = %s\nsbcast: size     = %d\nsbcast: jobid      = %d\nsbcast: node_list  = %s\n", b.s.Source, b.s.Target,
			info.Size(), b.s.Job, hostlist.Compress(names))
	}
	first, err := b.begin(info)
	if err != nil {
		return b.fail(1, "%v", err)
	}
	var hear sync.WaitGroup
	for i := range b.peers {
		hear.Go(func() { b.hear(i) })
	}
	if err := b.send(first); err != nil {
		b.fail(1, "reading %s: %v", b.s.Source, plain(err))
		b.code = max(b.code, 1)
	}
	hear.Wait()
	return b.code
}

// gather has the processes started, and waits until they have come.
func (b *broadcast) gather() int {
	l, err := listen()
	if err != nil {
		return b.fail(1, "no port can be opened for the nodes: %v", err)
	}
	defer func() { l.Close() }() // another one where the site has ports for it
	b.token = make([]byte, 32)
	nonce := make([]byte, 16)
	rand.Read(b.token)
	rand.Read(nonce)
	come := make(chan arrival)
	accept := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if p, node, err := tasks.Meet(c, b.token); err != nil {
					c.Close()
				} else {
					come <- arrival{peer: p, node: node}
				}
			}()
		}
	}
	go accept(l)
	c, err := b.w.dial(b.name)
	if err != nil {
		return b.fail(1, "%s", why(err))
	}
	defer c.Close()
	if b.s.HasStep {
		if code := b.ofStep(c); code != 0 {
			return code
		}
	}
	create := &tasks.Create{Job: b.s.Job, Nonce: nonce, Want: &tasks.Want{Aside: true, Nodes: b.s.Nodes, Umask: umask()},
		Launcher: &tasks.Launcher{Addresses: addresses(), Port: uint32(l.Addr().(*net.TCPAddr).Port), Token: b.token, Host: b.w.Host, Boot: tasks.Boot(), Pid: uint32(os.Getpid())}}
	r, err := c.Step(&tasks.Question{What: &tasks.Question_Create{Create: create}})
	if err == nil && r.Refusal == tasks.Refusal_BAD_PORT {
		l.Close()
		if l, err = listenIn(r.Text); err != nil {
			return b.fail(1, "%v", err)
		}
		go accept(l)
		create.Launcher.Port = uint32(l.Addr().(*net.TCPAddr).Port)
		r, err = c.Step(&tasks.Question{What: &tasks.Question_Create{Create: create}})
	}
	switch {
	case err != nil:
		return b.fail(1, "%s", why(err))
	case r.Refusal != tasks.Refusal_NOT_REFUSED:
		return b.fail(noJob, "Slurm job %d lookup error: %s", b.s.Job, r.Text)
	}
	b.parts = r.Created.Parts
	b.peers = make([]*tasks.Peer, len(b.parts))
	late := time.NewTimer(comeTime)
	defer late.Stop()
	for left := len(b.parts); left > 0; {
		select {
		case a := <-come:
			if int(a.node) >= len(b.peers) || b.peers[a.node] != nil {
				a.peer.Close()
				continue
			}
			b.peers[a.node] = a.peer
			left--
		case <-late.C:
			return b.fail(1, "not all nodes of job %d have come: is this host's port reachable from them?", b.s.Job)
		}
	}
	return 0
}

// ofStep has the file go to the nodes of a step.
func (b *broadcast) ofStep(c *wire.Conn) int {
	r, err := c.Step(&tasks.Question{What: &tasks.Question_Find{Find: &tasks.Find{Job: b.s.Job, Step: b.s.Step}}})
	switch {
	case err != nil:
		return b.fail(1, "%s", why(err))
	case r.Refusal != tasks.Refusal_NOT_REFUSED:
		return b.fail(noJob, "Slurm job %d.%d lookup error: %s", b.s.Job, b.s.Step, r.Text)
	}
	var nodes []string
	for _, p := range r.Created.Parts {
		if len(b.s.Nodes) == 0 || slices.Contains(b.s.Nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	if len(nodes) == 0 {
		return b.fail(noJob, "step %d.%d is on none of these nodes", b.s.Job, b.s.Step)
	}
	b.s.Nodes = nodes
	return 0
}

// begin tells the nodes what comes, and from where: so many take it from here, and pass it on to the others. It returns the first ones.
func (b *broadcast) begin(info os.FileInfo) (first []*tasks.Peer, err error) {
	width := b.s.Fanout
	if width == 0 {
		width = max(8, int(math.Ceil(math.Sqrt(float64(len(b.peers))))))
	}
	width = min(width, len(b.peers))
	st := info.Sys().(*syscall.Stat_t)
	about := func() *tasks.Receive {
		r := &tasks.Receive{Path: []byte(b.s.Target), Mode: uint32(info.Mode().Perm()), Force: b.s.Force}
		if b.s.Preserve {
			r.AccessNs, r.ChangeNs = st.Atim.Nano(), st.Mtim.Nano()
		}
		return r
	}
	tell := func(i int, r *tasks.Receive) error {
		if b.byNode {
			r.Path = append(r.Path, "_"+b.parts[i].Node...)
		}
		if err := b.peers[i].Tell(tasks.KindBegin, 0, &tasks.Begin{Dir: []byte(b.w.Dir), Receive: r}); err != nil {
			return fmt.Errorf("%s: %w", b.parts[i].Node, err)
		}
		return nil
	}
	for i := range width {
		r := about()
		r.Children = uint32((len(b.peers) - i - 1) / width) // every width-th behind it
		r.Relays = r.Children > 0
		if err := tell(i, r); err != nil {
			return nil, err
		}
		if !r.Relays {
			continue
		}
		f, err := b.peers[i].Next()
		told := &tasks.Told{}
		if err == nil && f.Kind == tasks.KindStarted {
			err = told.UnmarshalVT(f.Data)
		}
		if err != nil || told.Code == 0 {
			return nil, fmt.Errorf("%s cannot pass the file on: %w", b.parts[i].Node, errors.Join(err, errors.New("it opens no port")))
		}
		from := b.peers[i].Reachable(addresses(), tasks.Boot())
		from.Port, from.Token, from.Host = told.Code, b.token, b.parts[i].Node
		for c := i + width; c < len(b.peers); c += width {
			r := about()
			r.From = from
			if err := tell(c, r); err != nil {
				return nil, err
			}
		}
	}
	return b.peers[:width], nil
}

// send sends the file. A node that is gone is told of by hear.
func (b *broadcast) send(to []*tasks.Peer) error {
	sum := sha256.New()
	buf := make([]byte, b.s.Size)
	pass := func(k tasks.Kind, number uint32, data []byte) {
		var all sync.WaitGroup
		for _, p := range to {
			all.Go(func() { p.SendWithin(time.Duration(b.s.Timeout)*time.Second, k, number, data) })
		}
		all.Wait()
	}
	for {
		n, err := io.ReadFull(b.file, buf)
		if n > 0 {
			sum.Write(buf[:n])
			if data := buf[:n]; b.s.Compress {
				var small bytes.Buffer
				z, _ := flate.NewWriter(&small, flate.BestSpeed) // of a level that there is
				z.Write(data)
				z.Close()
				pass(tasks.KindData, 1, small.Bytes())
			} else {
				pass(tasks.KindData, 0, data)
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			pass(tasks.KindSum, 0, sum.Sum(nil))
			return nil
		case err != nil:
			for _, p := range b.peers {
				p.Close() // none takes a part for the whole
			}
			return err
		}
	}
}

// hear waits for a node's word.
func (b *broadcast) hear(i int) {
	bad := func(code int, text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.code = max(b.code, code)
		b.fail(0, "REQUEST_FILE_BCAST(%s): %s", b.parts[i].Node, text)
	}
	said := false
	for {
		f, err := b.peers[i].Next()
		if err != nil {
			if !said {
				bad(1, "it is gone, and has not said whether it has the file")
			}
			return
		}
		switch f.Kind {
		case tasks.KindSay:
			fmt.Fprintf(b.w.Stderr, b.name+": %s\n", bytes.TrimRight(f.Data, "\n"))
		case tasks.KindExited:
			m := &tasks.Told{}
			if said = m.UnmarshalVT(f.Data) == nil; said && m.Code != 0 {
				bad(int(m.Code&0xff), m.Text)
			}
		case tasks.KindOver:
			b.peers[i].Close()
			return
		}
	}
}
