//go:build cgo && pmix

package main

/*
#cgo pkg-config: pmix
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"stint/executor/tasks"
)

// server is the one of this process: the library has one.
type server struct {
	keeper *tasks.Peer
	order  *tasks.PmixOrder
	place  map[uint32]uint32 // of each rank's node
	size   int

	mu      sync.Mutex
	fences  map[string]int   // how often these ranks have met
	gathers map[string]modex // who waits for a fence
	pieces  map[string][]byte
	fetches map[uint64]modex
	asked   map[uint64]question // of other nodes, that the library answers
	last    uint64
}

// modex is who waits in the library for a blob: a function and its argument.
type modex struct{ f, data unsafe.Pointer }

var the *server

func newServer(keeper *tasks.Peer, order *tasks.PmixOrder) *server {
	s := &server{keeper: keeper, order: order, place: map[uint32]uint32{}, fences: map[string]int{}, gathers: map[string]modex{},
		pieces: map[string][]byte{}, fetches: map[uint64]modex{}, asked: map[uint64]question{}}
	for i, p := range order.Mpi.Places {
		for _, r := range p.Tasks {
			s.place[r] = uint32(i)
		}
		s.size += len(p.Tasks)
	}
	the = s
	return s
}

func failed(what string, rc C.int) error {
	return fmt.Errorf("PMIx: %s: %s", what, C.GoString(C.glue_error(rc)))
}

// words hands strings to C, and takes them back.
type words []unsafe.Pointer

func (w *words) of(s string) *C.char {
	c := C.CString(s)
	*w = append(*w, unsafe.Pointer(c))
	return c
}

func (w *words) free() {
	for _, p := range *w {
		C.free(p)
	}
}

func ranks(list []uint32) string {
	var out []string
	for _, r := range list {
		out = append(out, strconv.FormatUint(uint64(r), 10))
	}
	return strings.Join(out, ",")
}

// start tells the library about the step, and returns what each task of this node finds in its environment.
func (s *server) start() ([]*tasks.TaskEnviron, error) {
	var w words
	defer w.free()
	me := s.order.Mpi.Places[s.order.Node]
	space := w.of(s.order.Space)
	if rc := C.glue_init(w.of(s.order.Dir), w.of(me.Node)); rc != 0 {
		return nil, failed("starting its server", rc)
	}
	var names, perNode []string
	for _, p := range s.order.Mpi.Places {
		names = append(names, p.Node)
		perNode = append(perNode, ranks(p.Tasks))
	}
	nodes, procs := C.glue_regex(w.of(strings.Join(names, ","))), C.glue_ppn(w.of(strings.Join(perNode, ";")))
	if nodes == nil || procs == nil {
		return nil, fmt.Errorf("PMIx: the names of the nodes cannot be told to it: %s", strings.Join(names, ","))
	}
	l := C.glue_list_new(C.size_t(17 + s.size))
	key := func(k string) *C.char { return w.of(k) }
	u32 := func(k string, v int) { C.glue_list_u32(l, key(k), C.uint32_t(v)) }
	text := func(k string, v string) { C.glue_list_string(l, key(k), w.of(v)) }
	u32(C.PMIX_UNIV_SIZE, s.size)
	u32(C.PMIX_JOB_SIZE, s.size)
	u32(C.PMIX_MAX_PROCS, s.size)
	u32(C.PMIX_JOB_NUM_APPS, 1)
	u32(C.PMIX_APP_SIZE, s.size)
	u32(C.PMIX_NUM_NODES, len(names))
	u32(C.PMIX_LOCAL_SIZE, len(me.Tasks))
	u32(C.PMIX_NODE_SIZE, len(me.Tasks))
	u32(C.PMIX_NODEID, int(s.order.Node))
	text(C.PMIX_JOBID, s.order.Space)
	text(C.PMIX_LOCAL_PEERS, ranks(me.Tasks))
	C.glue_list_rank(l, key(C.PMIX_LOCALLDR), C.uint32_t(me.Tasks[0]))
	C.glue_list_string(l, key(C.PMIX_NODE_MAP), nodes)
	C.glue_list_string(l, key(C.PMIX_PROC_MAP), procs)
	text(C.PMIX_TMPDIR, s.order.Dir)
	text(C.PMIX_NSDIR, s.order.Dir)
	for node, p := range s.order.Mpi.Places {
		for i, r := range p.Tasks {
			d := C.glue_list_new(8)
			C.glue_list_rank(d, key(C.PMIX_RANK), C.uint32_t(r))
			C.glue_list_rank(d, key(C.PMIX_GLOBAL_RANK), C.uint32_t(r))
			C.glue_list_rank(d, key(C.PMIX_APP_RANK), C.uint32_t(r))
			C.glue_list_u32(d, key(C.PMIX_APPNUM), 0)
			C.glue_list_u16(d, key(C.PMIX_LOCAL_RANK), C.uint16_t(i))
			C.glue_list_u16(d, key(C.PMIX_NODE_RANK), C.uint16_t(i))
			C.glue_list_u32(d, key(C.PMIX_NODEID), C.uint32_t(node))
			C.glue_list_string(d, key(C.PMIX_HOSTNAME), w.of(p.Node))
			C.glue_list_list(l, key(C.PMIX_PROC_DATA), d)
		}
	}
	C.free(unsafe.Pointer(nodes))
	C.free(unsafe.Pointer(procs))
	if rc := C.glue_register(space, C.int(len(me.Tasks)), l); rc != 0 {
		return nil, failed("telling it about the step", rc)
	}
	var out []*tasks.TaskEnviron
	for _, r := range me.Tasks {
		if rc := C.glue_client(space, C.uint32_t(r), C.uint(os.Geteuid()), C.uint(os.Getegid())); rc != 0 {
			return nil, failed(fmt.Sprintf("telling it about task %d", r), rc)
		}
		env := C.glue_environ(space, C.uint32_t(r))
		if env == nil {
			return nil, fmt.Errorf("PMIx: it has no environment for task %d", r)
		}
		t := &tasks.TaskEnviron{}
		for p := env; *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
			t.Environ = append(t.Environ, []byte(C.GoString(*p)))
		}
		C.glue_environ_free(env)
		out = append(out, t)
	}
	return out, nil
}

// serve takes in what the keeper brings, until it closes.
func (s *server) serve() {
	for {
		f, err := s.keeper.Next()
		if err != nil {
			return // the library's files go with their folder, which the keeper takes away
		}
		switch f.Kind {
		case tasks.KindGather:
			m := &tasks.Gather{}
			if m.UnmarshalVT(f.Data) == nil {
				s.gathered(m)
			}
		case tasks.KindFetch:
			m := &tasks.Fetch{}
			if m.UnmarshalVT(f.Data) == nil {
				s.fetched(m)
			}
		}
	}
}

// done answers who waits in the library.
func (m modex) done(status C.int, blob []byte) {
	var p unsafe.Pointer
	if len(blob) > 0 {
		p = unsafe.Pointer(&blob[0])
	}
	C.glue_modex_done(m.f, m.data, status, p, C.size_t(len(blob)))
}

func (s *server) gathered(m *tasks.Gather) {
	s.mu.Lock()
	s.pieces[m.Key] = append(s.pieces[m.Key], m.Data...)
	if m.More {
		s.mu.Unlock()
		return
	}
	blob := s.pieces[m.Key]
	to, ok := s.gathers[m.Key]
	delete(s.gathers, m.Key)
	delete(s.pieces, m.Key)
	s.mu.Unlock()
	if !ok {
		return
	}
	if m.Failed != "" {
		fmt.Fprintf(os.Stderr, "a fence failed: %s\n", m.Failed)
		to.done(C.PMIX_ERR_LOST_CONNECTION, nil)
		return
	}
	to.done(C.PMIX_SUCCESS, blob)
}

func (s *server) fetched(m *tasks.Fetch) {
	if !m.Answer {
		s.ask(m, time.Now().Add(publishTime))
		return
	}
	s.mu.Lock()
	to, ok := s.fetches[m.Id]
	delete(s.fetches, m.Id)
	s.mu.Unlock()
	switch {
	case !ok:
	case m.Status != 0:
		to.done(C.PMIX_ERR_NOT_FOUND, nil)
	default:
		to.done(C.PMIX_SUCCESS, m.Data)
	}
}

// publishTime is how long a task may take to publish what another one asks for. Without all of it being gathered first, a task may ask
// between two of the other's publications.
const publishTime = 60 * time.Second

// question is one of another node, for what a task here has published.
type question struct {
	fetch *tasks.Fetch
	until time.Time
}

// ask has the library answer a question, as soon as the task has published anything.
func (s *server) ask(m *tasks.Fetch, until time.Time) {
	s.mu.Lock()
	s.last++
	id := s.last
	s.asked[id] = question{m, until}
	s.mu.Unlock()
	space := C.CString(s.order.Space)
	defer C.free(unsafe.Pointer(space))
	if rc := C.glue_ask(space, C.uint32_t(m.Rank), C.uint64_t(id)); rc != 0 {
		s.answer(id, rc, nil)
	}
}

// answer answers another node, or asks again where what it wants is not among what was published yet. A blob holds keys as they are.
func (s *server) answer(id uint64, status C.int, blob []byte) {
	s.mu.Lock()
	q, ok := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if !ok {
		return
	}
	m := q.fetch
	if m.Key != "" && (status == C.PMIX_ERR_NOT_FOUND || status == C.PMIX_SUCCESS && !bytes.Contains(blob, []byte(m.Key))) && time.Now().Before(q.until) {
		time.AfterFunc(10*time.Millisecond, func() { s.ask(m, q.until) })
		return
	}
	m.Answer, m.Status, m.Data = true, int32(status), blob
	s.keeper.Tell(tasks.KindFetch, 0, m)
}

// waiters are calls of C that wait for the library to say that something is done.
var waiters struct {
	sync.Mutex
	n    uintptr
	done map[uintptr]chan C.int
}

//export goWaiter
func goWaiter() unsafe.Pointer {
	waiters.Lock()
	defer waiters.Unlock()
	if waiters.done == nil {
		waiters.done = map[uintptr]chan C.int{}
	}
	p := C.malloc(1) // only a name, which C may carry
	waiters.done[uintptr(p)] = make(chan C.int, 1)
	return p
}

//export goDone
func goDone(w unsafe.Pointer, status C.int) {
	waiters.Lock()
	defer waiters.Unlock()
	if c := waiters.done[uintptr(w)]; c != nil {
		c <- status
	}
}

//export goWait
func goWait(w unsafe.Pointer, status C.int) C.int {
	waiters.Lock()
	c := waiters.done[uintptr(w)]
	waiters.Unlock()
	if status == C.PMIX_SUCCESS {
		status = <-c
	} else if status == C.PMIX_OPERATION_SUCCEEDED {
		status = C.PMIX_SUCCESS
	}
	waiters.Lock()
	delete(waiters.done, uintptr(w))
	waiters.Unlock()
	C.free(w)
	return status
}

//export goFence
func goFence(procs *C.uint32_t, n C.size_t, all C.uint32_t, data *C.char, size C.size_t, f, arg unsafe.Pointer) {
	s := the
	list := slices.Clone(unsafe.Slice((*uint32)(unsafe.Pointer(procs)), int(n)))
	slices.Sort(list)
	list = slices.Compact(list)
	var nodes []uint32
	name := "all"
	if len(list) < s.size && !slices.Contains(list, uint32(all)) {
		sum := sha256.Sum256([]byte(ranks(list)))
		name = hex.EncodeToString(sum[:])
		for _, r := range list {
			if at, ok := s.place[r]; ok && !slices.Contains(nodes, at) {
				nodes = append(nodes, at)
			}
		}
	}
	var blob []byte
	if size > 0 {
		blob = C.GoBytes(unsafe.Pointer(data), C.int(size))
	}
	s.mu.Lock()
	s.fences[name]++
	key := fmt.Sprintf("pmix %s %d", name, s.fences[name])
	s.gathers[key] = modex{f, arg}
	s.mu.Unlock()
	go tasks.TellGather(s.keeper, &tasks.Gather{Key: key, Nodes: nodes, Data: blob})
}

//export goFetch
func goFetch(rank C.uint32_t, key *C.char, f, arg unsafe.Pointer) {
	s := the
	to := modex{f, arg}
	at, ok := s.place[uint32(rank)]
	if !ok {
		go to.done(C.PMIX_ERR_NOT_FOUND, nil)
		return
	}
	s.mu.Lock()
	s.last++
	m := &tasks.Fetch{Id: s.last, To: at, Rank: uint32(rank), Key: C.GoString(key)}
	s.fetches[m.Id] = to
	s.mu.Unlock()
	go s.keeper.Tell(tasks.KindFetch, 0, m)
}

//export goFetched
func goFetched(id C.uint64_t, status C.int, data *C.char, n C.size_t) {
	var blob []byte
	if n > 0 {
		blob = C.GoBytes(unsafe.Pointer(data), C.int(n))
	}
	go the.answer(uint64(id), status, blob)
}

//export goAbort
func goAbort(rank C.uint32_t, status C.int, text *C.char) {
	words := C.GoString(text)
	if words == "" || words == "N/A" {
		words = fmt.Sprintf("it aborted the step with status %d", int(status))
	}
	the.keeper.Send(tasks.KindQuit, uint32(rank), []byte(words))
}
