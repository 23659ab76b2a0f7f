package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"stint/cli/slurm"
	"stint/events"
	"stint/events/filename"
	"stint/executor/tasks"
)

// sink is where one stream of the tasks goes here: a file or srun's own. Tasks' lines are kept whole.
type sink struct {
	mu       sync.Mutex
	w        io.Writer
	file     *os.File
	label    bool
	raw      bool // as it comes
	tasks    int
	part     map[uint32][]byte
	labelled []byte // to be used again
	broken   bool
	lost     func(error) // told once of a file that takes no more
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
	number, width := strconv.Itoa(int(rank)), len(strconv.Itoa(s.tasks-1))
	before := strings.Repeat(" ", max(0, width-len(number))) + number + ": "
	b := s.labelled[:0]
	for l := range bytes.Lines(data) {
		b = append(append(b, before...), l...)
		if l[len(l)-1] != '\n' {
			b = append(b, '\n')
		}
	}
	s.put(b)
	s.labelled = b
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
func (l *launcher) place(name string, own io.Writer) (*tasks.Stream, *sink, error) {
	s := &sink{w: own, label: l.s.Label, raw: l.s.Unbuffered || l.s.Pty}
	lower := strings.ToLower(name)
	switch {
	case name == "" || lower == "all":
		return &tasks.Stream{}, s, nil
	case lower == "none":
		return &tasks.Stream{Way: tasks.Way_NOTHING}, s, nil
	}
	if n, err := strconv.ParseUint(name, 10, 31); err == nil && int(n) < l.count {
		return &tasks.Stream{Way: tasks.Way_ONE, Only: uint32(n)}, s, nil
	}
	path := l.fileName(name)
	if filename.PerTask(name) {
		return &tasks.Stream{Way: tasks.Way_FILES, Path: []byte(path), Append: l.s.Append}, s, nil
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if l.s.Append {
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

// fileName puts into a pattern what is known here; what nodes put in themselves stays (%t %n %N, and %% in such a pattern).
func (l *launcher) fileName(pattern string) string {
	n := slurm.Names{Job: l.job, Step: events.StepName(l.created.Step), JobName: l.s.Spec.Name}
	if v := l.w.Getenv("SLURM_JOB_NAME"); v != "" && l.allocation == nil {
		n.JobName = v
	}
	if a, err := strconv.ParseUint(l.w.Getenv("SLURM_ARRAY_JOB_ID"), 10, 32); err == nil {
		t, _ := strconv.ParseUint(l.w.Getenv("SLURM_ARRAY_TASK_ID"), 10, 32)
		n.Array, n.Task = uint32(a), uint32(t)
	}
	if j := l.allocation; j != nil {
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
		name = filepath.Join(l.s.Spec.WorkDir, name)
	}
	return name
}

// streams decides where the tasks' streams go.
func (l *launcher) streams(begin *tasks.Begin) error {
	s := l.s
	var err error
	if begin.Stdout, l.out, err = l.place(s.Output, l.w.Stdout); err != nil {
		return err
	}
	switch {
	case s.Pty:
		begin.Stdout, begin.Stderr = &tasks.Stream{Way: tasks.Way_ONE}, &tasks.Stream{Way: tasks.Way_ONE}
		l.err = l.out
	case s.Error == "" && s.Output != "" && begin.Stdout.Way != tasks.Way_NOTHING && begin.Stdout.Way != tasks.Way_ONE:
		// Both into one file.
		if l.err = l.out; begin.Stdout.Way == tasks.Way_FILES {
			begin.Stderr = &tasks.Stream{Way: tasks.Way_SAME}
		} else {
			begin.Stderr = &tasks.Stream{}
		}
	default:
		if begin.Stderr, l.err, err = l.place(s.Error, l.w.Stderr); err != nil {
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
	case nerr == nil && int(n) < l.count:
		begin.Stdin.Way, begin.Stdin.Only = tasks.Way_ONE, uint32(n)
	case filename.PerTask(s.Input):
		begin.Stdin.Way, begin.Stdin.Path = tasks.Way_FILES, []byte(l.fileName(s.Input))
	default:
		f, err := os.Open(l.fileName(s.Input))
		if err != nil {
			return fmt.Errorf("Could not open stdin file %s: %w", l.fileName(s.Input), plain(err))
		}
		l.stdin = f
		return nil
	}
	if w := begin.Stdin.Way; w == tasks.Way_LAUNCHER || w == tasks.Way_ONE {
		l.stdin = l.w.Stdin
	}
	l.only, l.one = begin.Stdin.Only, begin.Stdin.Way == tasks.Way_ONE || s.Pty
	return nil
}

func (l *launcher) closeFiles() {
	for _, s := range []*sink{l.out, l.err} {
		if s != nil && s.file != nil {
			s.file.Close()
		}
	}
}

// feed sends stdin to the tasks, no more than they read.
func (l *launcher) feed(in io.Reader) {
	number := uint32(tasks.AllTasks)
	to := l.nodes
	if l.one {
		number = l.only
		to = nil
		for _, n := range l.nodes {
			for _, t := range n.tasks {
				if t == l.only {
					to = []*nodeEnd{n}
				}
			}
		}
	}
	buf := make([]byte, 32<<10)
	for full := 0; ; {
		n, err := in.Read(buf)
		if n > 0 && !l.pass(to, number, buf[:n]) {
			return
		}
		if full++; n < len(buf) {
			full = 0
		} else if full == 16 && len(buf) < 128<<10 { // much comes: fewer frames, and yet several in the window
			buf = make([]byte, 128<<10)
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
				n.peer.Send(tasks.KindStdin, number, nil)
			}
			return
		}
	}
}

// pass sends some bytes to nodes when all that are left have room; false: there are none left.
func (l *launcher) pass(to []*nodeEnd, number uint32, data []byte) bool {
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
	var open []*nodeEnd
	for _, n := range to {
		if !n.gone {
			n.room -= len(data)
			open = append(open, n)
		}
	}
	l.window.L.Unlock()
	for _, n := range open {
		n.peer.Send(tasks.KindStdin, number, data)
	}
	return true
}
