package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"stint/cli/slurm"
	"stint/events/filename"
	"stint/executor/tasks"
)

// sink is where one stream of the tasks goes here: a file or srun's own. Tasks' lines are kept whole.
type sink struct {
	mu     sync.Mutex
	w      io.Writer
	file   *os.File
	label  bool
	raw    bool // as it comes
	tasks  int
	part   map[uint32][]byte
	broken bool
	lost   func(error) // told once of a file that takes no more
}

// longest is how much of a line is kept back for its end.
const longest = 64 << 10

func (s *sink) write(rank uint32, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(data) == 0 { // closed
		s.rest(rank)
		return
	}
	if !s.label && (s.raw || s.tasks == 1) {
		s.put(data)
		return
	}
	if have := s.part[rank]; len(have) > 0 {
		data = append(have, data...)
		delete(s.part, rank)
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && (s.raw || len(data) > longest) {
		s.line(rank, data)
		return
	}
	s.line(rank, data[:end])
	if rest := data[end:]; len(rest) > 0 {
		if s.part == nil {
			s.part = map[uint32][]byte{}
		}
		s.part[rank] = append([]byte(nil), rest...)
	}
}

// line writes whole lines, each behind its task's number if wanted.
func (s *sink) line(rank uint32, data []byte) {
	if len(data) == 0 {
		return
	}
	if !s.label {
		s.put(data)
		return
	}
	width := len(strconv.Itoa(s.tasks - 1))
	var b bytes.Buffer
	for l := range bytes.Lines(data) {
		fmt.Fprintf(&b, "%*d: ", width, rank)
		b.Write(l)
		if l[len(l)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	s.put(b.Bytes())
}

func (s *sink) put(data []byte) {
	if s.broken {
		return
	}
	if _, err := s.w.Write(data); err != nil {
		s.broken = true // nobody reads it any more, or it has no room: the tasks are not held up
		if s.lost != nil {
			s.lost(err)
		}
	}
}

// rest writes what a task has left of a line.
func (s *sink) rest(rank uint32) {
	if p := s.part[rank]; len(p) > 0 {
		delete(s.part, rank)
		s.line(rank, p)
	}
}

func (s *sink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rank := range s.tasks {
		s.rest(uint32(rank))
	}
}

// place decides where a stream goes: a name as given to -o or -e, and whether the node or srun opens it.
func (l *launcher) place(c *component, name string, own io.Writer) (*tasks.Stream, *sink, error) {
	s := &sink{w: own, label: c.s.Label, raw: c.s.Unbuffered || c.s.Pty}
	lower := strings.ToLower(name)
	switch {
	case name == "" || lower == "all":
		return &tasks.Stream{}, l.shared(c, s), nil
	case lower == "none":
		return &tasks.Stream{Way: tasks.Way_NOTHING}, s, nil
	}
	if n, err := strconv.ParseUint(name, 10, 31); err == nil && int(n) < c.count {
		return &tasks.Stream{Way: tasks.Way_ONE, Only: uint32(n) + uint32(c.first)}, s, nil
	}
	path := l.fileName(c, name)
	if filename.PerTask(name) {
		return &tasks.Stream{Way: tasks.Way_FILES, Path: []byte(path), Append: c.s.Append}, s, nil
	}
	for _, before := range l.parts {
		for _, o := range []*sink{before.out, before.err} {
			if before != c && o != nil && o.file != nil && o.file.Name() == path && o.label == s.label {
				return &tasks.Stream{}, o, nil
			}
		}
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if c.s.Append {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, mode, 0o666)
	if err != nil {
		return nil, nil, fmt.Errorf("Could not open stdout file %s: %w", path, plain(err))
	}
	s.w, s.file = f, f
	s.lost = func(err error) {
		fmt.Fprintf(l.w.Stderr, "srun: error: %s: %v; what else the tasks write there is lost\n", path, plain(err))
	}
	return &tasks.Stream{}, s, nil
}

// shared is a sink like this one that a component before has, so that each line comes out whole.
func (l *launcher) shared(c *component, s *sink) *sink {
	for _, before := range l.parts {
		for _, o := range []*sink{before.out, before.err} {
			if before != c && o != nil && o.file == nil && o.w == s.w && o.label == s.label && o.raw == s.raw {
				return o
			}
		}
	}
	return s
}

// fileName puts into a pattern what is known here; what nodes put in themselves stays (%t %n %N, and %% in such a pattern).
func (l *launcher) fileName(c *component, pattern string) string {
	n := slurm.Names{Job: c.job, Step: strconv.FormatUint(uint64(c.created.Step), 10), JobName: c.s.Spec.Name}
	if v := l.w.Getenv("SLURM_JOB_NAME"); v != "" && c.allocation == nil {
		n.JobName = v
	}
	if a, err := strconv.ParseUint(l.w.Getenv("SLURM_ARRAY_JOB_ID"), 10, 32); err == nil {
		t, _ := strconv.ParseUint(l.w.Getenv("SLURM_ARRAY_TASK_ID"), 10, 32)
		n.Array, n.Task = uint32(a), uint32(t)
	}
	if j := c.allocation; j != nil {
		n.User = j.GetOwner().GetUser()
		if j.GetHasTask() {
			n.Array, n.Task = j.GetArrayId(), j.GetArrayTask()
		}
	} else {
		n.User = l.w.Getenv("USER")
	}
	name := slurm.FileName(pattern, n, l.w.Release())
	if filename.PerTask(pattern) {
		n.NoModulo = l.w.Release() < 2405
		name = filename.BeforeNode(pattern, n)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.s.Spec.WorkDir, name)
	}
	return name
}

// streams decides where the tasks' streams go.
func (l *launcher) streams(c *component) error {
	s, begin := c.s, c.begin
	var err error
	if begin.Stdout, c.out, err = l.place(c, s.Output, l.w.Stdout); err != nil {
		return err
	}
	switch {
	case s.Pty:
		begin.Stdout, begin.Stderr = &tasks.Stream{Way: tasks.Way_ONE}, &tasks.Stream{Way: tasks.Way_ONE}
		c.err = c.out
	case s.Error == "" && s.Output != "" && begin.Stdout.Way != tasks.Way_NOTHING && begin.Stdout.Way != tasks.Way_ONE:
		// Both into one file.
		if c.err = c.out; begin.Stdout.Way == tasks.Way_FILES {
			begin.Stderr = &tasks.Stream{Way: tasks.Way_SAME}
		} else {
			begin.Stderr = &tasks.Stream{}
		}
	default:
		if begin.Stderr, c.err, err = l.place(c, s.Error, l.w.Stderr); err != nil {
			return err
		}
	}
	begin.Stdin = &tasks.Stream{}
	lower := strings.ToLower(s.Input)
	n, nerr := strconv.ParseUint(s.Input, 10, 31)
	switch {
	case s.Pty, s.Input == "", lower == "all":
	case lower == "none":
		begin.Stdin.Way = tasks.Way_NOTHING
	case nerr == nil && int(n) < c.count:
		begin.Stdin.Way, begin.Stdin.Only = tasks.Way_ONE, uint32(n)+uint32(c.first)
	case filename.PerTask(s.Input):
		begin.Stdin.Way, begin.Stdin.Path = tasks.Way_FILES, []byte(l.fileName(c, s.Input))
	default:
		f, err := os.Open(l.fileName(c, s.Input))
		if err != nil {
			return fmt.Errorf("Could not open stdin file %s: %w", l.fileName(c, s.Input), plain(err))
		}
		c.stdin = f
		return nil
	}
	if w := begin.Stdin.Way; w == tasks.Way_LAUNCHER || w == tasks.Way_ONE {
		c.stdin = l.w.Stdin
	}
	c.only, c.one = begin.Stdin.Only, begin.Stdin.Way == tasks.Way_ONE || s.Pty
	return nil
}

func (l *launcher) closeFiles() {
	for _, c := range l.parts {
		for _, s := range []*sink{c.out, c.err} {
			if s != nil && s.file != nil {
				s.file.Close()
			}
		}
	}
}

// target is a node that stdin goes to, and the task there, or all of them.
type target struct {
	*nodeEnd
	number uint32
}

// feedAll sends stdin to the tasks that have it: what comes here to those of all components, a file of a component's own to its own.
func (l *launcher) feedAll() {
	var from []io.Reader
	to := map[io.Reader][]target{}
	for _, c := range l.parts {
		if c.stdin == nil {
			continue
		}
		if _, known := to[c.stdin]; !known {
			from = append(from, c.stdin)
		}
		for _, n := range l.nodes {
			switch {
			case n.of != c:
			case !c.one:
				to[c.stdin] = append(to[c.stdin], target{n, tasks.AllTasks})
			case slices.Contains(n.tasks, c.only):
				to[c.stdin] = append(to[c.stdin], target{n, c.only})
			}
		}
	}
	for _, in := range from {
		go l.feed(in, to[in])
	}
}

// feed sends stdin to tasks, no more than they read.
func (l *launcher) feed(in io.Reader, to []target) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && !l.pass(to, buf[:n]) {
			return
		}
		if errors.Is(err, syscall.EIO) { // in the background of a terminal: what is typed is for somebody else
			select {
			case <-l.finished:
				return
			case <-time.After(300 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			for _, n := range to {
				n.peer.Send(tasks.KindStdin, n.number, nil)
			}
			return
		}
	}
}

// pass sends some bytes to nodes when all that are left have room; false: there are none left.
func (l *launcher) pass(to []target, data []byte) bool {
	l.window.L.Lock()
	for {
		wait, left := false, 0
		for _, n := range to {
			if !n.gone {
				left++
				wait = wait || n.room < len(data)
			}
		}
		if left == 0 {
			l.window.L.Unlock()
			return false
		}
		if !wait {
			break
		}
		l.window.Wait()
	}
	var open []target
	for _, n := range to {
		if !n.gone {
			n.room -= len(data)
			open = append(open, n)
		}
	}
	l.window.L.Unlock()
	for _, n := range open {
		n.peer.Send(tasks.KindStdin, n.number, data)
	}
	return true
}
