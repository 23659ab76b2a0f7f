package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Job is what the server tells the tasks of one node about their step.
type Job struct {
	ID       string   // of the step, and of its one space of keys
	Size     int      // tasks of the whole step
	Ranks    []uint32 // of the tasks on this node
	Universe int      // how many there could be at most
	Mapping  string   // see Mapping
}

// Limits of what tasks may put, told to clients of version 1. All that a node puts between two fences is at most maxPut bytes.
const (
	maxName  = 256
	maxKey   = 256
	maxValue = 1024
	maxLine  = 16 << 10
	maxPut   = 64 << 20
)

// Server serves the tasks of one node. Its methods may be called from several goroutines.
type Server struct {
	job Job
	// Fence is called when all tasks of the node have come to their n-th fence, from 0, with what they have put since the one before.
	// It returns what the tasks of all nodes have put, once all have come; or an error, which the tasks are told.
	Fence func(n int, puts []Pair) ([]Pair, error)
	// Forgo is called when the n-th fence and those after it cannot come to be: a task of the node is over that was not there.
	Forgo func(n int)
	// Abort is called when a task wants the whole step to be over.
	Abort func(rank uint32, code int, text string)

	mu      sync.Mutex
	known   map[string]string // after the last fence
	put     map[string]string // since
	size    int               // bytes of put
	attrs   map[string]string // of the node
	asking  []waiting         // for attributes of the node that are not there yet
	at      map[uint32]func(error)
	fences  int // that all tasks of the node have come to
	over    map[uint32]bool
	forgone bool
}

// waiting is a task that asks for an attribute of its node before it is there.
type waiting struct {
	key    string
	answer func(value string)
}

// New makes a server for the tasks of one node.
func New(job Job) *Server {
	return &Server{job: job, known: map[string]string{}, put: map[string]string{}, attrs: map[string]string{}, at: map[uint32]func(error){}, over: map[uint32]bool{}}
}

// Serve speaks with one task until it closes its end or says something that cannot be understood, which is the error.
func (s *Server) Serve(rank uint32, c io.ReadWriter) error {
	r := bufio.NewReaderSize(c, maxLine)
	first, err := line(r)
	if err != nil {
		return ended(err)
	}
	f := fieldsOf(first)
	if f["cmd"] != "init" {
		return fmt.Errorf("task %d: its first words are %s, and should be cmd=init", rank, clip(first))
	}
	t := &talk{s: s, rank: rank, r: r, w: c}
	switch f["pmi_version"] {
	case "1":
		t.reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
		return ended(t.one())
	case "2":
		t.reply("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
		return ended(t.two())
	}
	t.reply("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n")
	return fmt.Errorf("task %d: version %s of PMI is not spoken here, only 1 and 2", rank, clip(f["pmi_version"]))
}

// Gone says that a task is over. The others shall not wait for it for ever: a fence that it has not come to fails.
func (s *Server) Gone(rank uint32) {
	s.mu.Lock()
	s.over[rank] = true
	delete(s.at, rank)
	come, n, forgo := s.at, s.fences, !s.forgone
	s.at, s.forgone = map[uint32]func(error){}, true
	s.mu.Unlock()
	for _, done := range come {
		done(errOver)
	}
	if forgo {
		s.Forgo(n)
	}
}

// errFinalized ends a talk that came to its end.
var errFinalized = errors.New("finalized")

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, errFinalized) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// talk is with one task.
type talk struct {
	s    *Server
	rank uint32
	r    *bufio.Reader
	mu   sync.Mutex
	w    io.Writer
}

func (t *talk) reply(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	io.WriteString(t.w, text) // one who does not read any more is over, which its end says
}

var (
	errKey   = fmt.Errorf("a key has 1 to %d bytes", maxKey)
	errValue = fmt.Errorf("a value has at most %d bytes", maxValue)
	errMuch  = fmt.Errorf("the tasks of a node may put %d MiB between two fences", maxPut>>20)
	errOver  = errors.New("a task is over, and will never come to this fence")
	errTwice = errors.New("the task is at a fence already")
)

// putPair keeps a pair for the next fence.
func (s *Server) putPair(key, value string) error {
	switch {
	case key == "" || len(key) > maxKey:
		return errKey
	case len(value) > maxValue:
		return errValue
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, was := s.put[key]
	size := s.size + len(value) - len(old)
	if !was {
		size += len(key)
	}
	if size > maxPut {
		return errMuch
	}
	s.put[key], s.size = value, size
	return nil
}

// get looks a key up: what the last fence has brought, or what a task of this node has put since.
func (s *Server) get(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.put[key]; ok {
		return v, true
	}
	v, ok := s.known[key]
	return v, ok
}

// fence has a task wait for all others; done is called when they have come.
func (s *Server) fence(rank uint32, done func(error)) {
	s.mu.Lock()
	if s.at[rank] != nil {
		s.mu.Unlock()
		done(errTwice)
		return
	}
	if s.forgone {
		s.mu.Unlock()
		done(errOver)
		return
	}
	s.at[rank] = done
	if len(s.at) < len(s.job.Ranks) {
		s.mu.Unlock()
		return
	}
	come, puts := s.at, pairsOf(s.put)
	s.at = map[uint32]func(error){}
	n := s.fences
	s.fences++
	s.mu.Unlock()
	go func() {
		all, err := s.Fence(n, puts)
		s.mu.Lock()
		if err == nil {
			for _, p := range all {
				s.known[p.Key] = p.Value
			}
			for _, p := range puts { // what was put since then, by a task that did not wait, is for the next one
				if s.put[p.Key] == p.Value {
					delete(s.put, p.Key)
					s.size -= len(p.Key) + len(p.Value)
				}
			}
		}
		s.mu.Unlock()
		for _, done := range come {
			done(err)
		}
	}()
}

// attribute is what a task may ask about the step.
func (s *Server) attribute(key string) (string, bool) {
	switch key {
	case "PMI_process_mapping":
		return s.job.Mapping, true
	case "universeSize":
		return strconv.Itoa(s.job.Universe), true
	case "localRanksCount":
		return strconv.Itoa(len(s.job.Ranks)), true
	case "localRanks":
		var list []string
		for _, r := range s.job.Ranks {
			list = append(list, strconv.FormatUint(uint64(r), 10))
		}
		return strings.Join(list, ","), true
	}
	return "", false
}

// setAttribute tells the tasks of the node something.
func (s *Server) setAttribute(key, value string) error {
	switch {
	case key == "" || len(key) > maxKey:
		return errKey
	case len(value) > maxValue:
		return errValue
	}
	s.mu.Lock()
	if s.size += len(key) + len(value); s.size > maxPut {
		s.mu.Unlock()
		return errMuch
	}
	s.attrs[key] = value
	var told, still []waiting
	for _, w := range s.asking {
		if w.key == key {
			told = append(told, w)
		} else {
			still = append(still, w)
		}
	}
	s.asking = still
	s.mu.Unlock()
	for _, w := range told {
		w.answer(value)
	}
	return nil
}

// nodeAttribute looks up what a task of this node has told the others. With wait, answer is called once it is there.
func (s *Server) nodeAttribute(key string, wait bool, answer func(value string)) (value string, ok, later bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok = s.attrs[key]
	if !ok && wait && len(s.asking) < 4*len(s.job.Ranks)+64 {
		s.asking = append(s.asking, waiting{key, answer})
		return "", false, true
	}
	return value, ok, false
}

// line reads a line without its end.
func line(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("a line has more than %d bytes", maxLine)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

func clip(s string) string {
	if len(s) > 80 {
		s = s[:80]
	}
	return strconv.Quote(s)
}
