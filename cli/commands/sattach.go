package commands

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"stint/cli/slurm"
	"stint/events/hostlist"
	"stint/executor/tasks"
)

func sattach(args []string, w *World) int {
	s, err := slurm.ReadSattach(w.input(args))
	switch {
	case err != nil:
		return w.exitError(w.complain("sattach", err))
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	fail := func(format string, args ...any) int {
		return w.exitError(w.complain("sattach", fmt.Errorf(format, args...)))
	}
	c, err := w.dial("sattach")
	if err != nil {
		return fail("%s", why(err))
	}
	r, err := c.Step(&tasks.Question{What: &tasks.Question_Find{Find: &tasks.Find{Job: s.Job, Step: s.Step}}})
	c.Close()
	switch {
	case err != nil:
		return fail("%s", why(err))
	case r.Refusal != tasks.Refusal_NOT_REFUSED:
		return fail("Could not get job step info: %s", r.Text)
	}
	if s.Layout {
		io.WriteString(w.Stdout, layoutText(r.Created.Parts))
		return 0
	}
	peer, err := tasks.Reach(r.Launcher, tasks.Onlooker)
	if err != nil {
		return fail("step %d.%d: %v", s.Job, s.Step, err)
	}
	defer peer.Close()
	a := &onlooking{w: w, s: s, peer: peer}
	for _, p := range r.Created.Parts {
		a.count += len(p.Tasks)
	}
	return a.run()
}

// layoutText tells which tasks are where.
func layoutText(parts []*tasks.Part) string {
	var b strings.Builder
	names, count := make([]string, len(parts)), 0
	for i, p := range parts {
		names[i] = p.Node
		count += len(p.Tasks)
	}
	fmt.Fprintf(&b, "Job step layout:\n\t%d tasks, %d nodes (%s)\n\n", count, len(parts), hostlist.Compress(names))
	for i, p := range parts {
		fmt.Fprintf(&b, "\tNode %d (%s), %d task(s): ", i, p.Node, len(p.Tasks))
		for _, t := range p.Tasks {
			fmt.Fprintf(&b, "%d ", t)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// onlooking is one sattach.
type onlooking struct {
	w     *World
	s     *slurm.Sattach
	peer  *tasks.Peer
	count int
	ended int
}

func (a *onlooking) run() int {
	restore := a.terminal()
	defer restore()
	out := &sink{w: a.w.Stdout, label: a.s.Label, raw: a.s.Pty, tasks: a.count}
	errs := &sink{w: a.w.Stderr, label: a.s.Label, raw: a.s.Pty, tasks: a.count}
	if !a.s.Input.None {
		go a.feed()
	}
	for {
		f, err := a.peer.Next()
		if err != nil {
			break // the step's srun is gone, and so is the step
		}
		switch f.Kind {
		case tasks.KindStdout:
			if a.s.Output.Passes(f.Number) {
				out.write(f.Number, f.Data)
			}
		case tasks.KindStderr:
			if a.s.Errors.Passes(f.Number) {
				errs.write(f.Number, f.Data)
			}
		case tasks.KindExited:
			m := &tasks.Told{}
			if m.UnmarshalVT(f.Data) == nil {
				a.ended += len(m.Tasks)
				if a.s.Verbose > 0 {
					fmt.Fprintf(a.w.Stderr, "sattach: %d of %d tasks are over\n", a.ended, a.count)
				}
			}
		}
		if f.Kind == tasks.KindOver {
			break
		}
	}
	out.flush()
	errs.flush()
	return 0
}

// feed passes standard input on.
func (a *onlooking) feed() {
	to := uint32(tasks.AllTasks)
	if a.s.Input.Only != nil {
		to = *a.s.Input.Only
	} else if a.s.Pty {
		to = 0
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := a.w.Stdin.Read(buf)
		if n > 0 && a.peer.Send(tasks.KindStdin, to, buf[:n]) != nil || err != nil {
			return
		}
	}
}

// terminal has keys passed on as they are typed, until restore.
func (a *onlooking) terminal() (restore func()) {
	in, isFile := a.w.Stdin.(*os.File)
	if !a.s.Pty || !isFile || !term.IsTerminal(int(in.Fd())) {
		return func() {}
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	size := func() {
		if w, h, err := term.GetSize(int(in.Fd())); err == nil {
			a.peer.Send(tasks.KindSize, 0, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(h)), uint16(w)))
		}
	}
	size()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			size()
		}
	}()
	return func() {
		signal.Stop(changed)
		term.Restore(int(in.Fd()), old)
	}
}
