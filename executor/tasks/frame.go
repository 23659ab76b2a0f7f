// Package tasks is the tasks of a numbered step: what is said about it (step.proto), the talk between its launcher and its nodes,
// and the keeper, the one process that the supervisor starts for a step on a node and that starts the tasks. It is linked into the
// light client, so it imports nothing of the bus.
package tasks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Kind says what a frame between keeper and launcher is.
type Kind byte

// The kinds. A frame is its kind (1 byte), a number (4 bytes, big endian: a rank, a signal, or nothing), the length of what follows
// (4 bytes), and that.
const (
	KindBegin   Kind = 1 + iota // launcher: Begin
	KindStdin                   // launcher: bytes for a task, AllTasks for all; none: end of file
	KindSignal                  // launcher: the number is the signal
	KindSize                    // launcher: rows and columns of the terminal, 2 bytes each
	KindEnd                     // launcher: end what still runs: TERM, later KILL; with the number 1: KILL at once
	KindStdout                  // keeper: bytes of a task; none: it is closed
	KindStderr                  // keeper: likewise
	KindStarted                 // keeper: Told, ranks and process ids
	KindExited                  // keeper: Told, ranks that ended alike
	KindFailed                  // keeper: Told, ranks that could not be started, with errno as the code
	KindTaken                   // keeper: the number is how many bytes of stdin it has passed on
	KindOver                    // keeper: nothing of the step is left here
	KindSay                     // keeper: a line for the user
	KindData                    // launcher: bytes of a file; with the number 1 they are compressed
	KindSum                     // launcher: the file is complete, and this is its SHA-256
	KindAborted                 // keeper: a line for the user: the step is ended from outside; with the number 1: it has more memory than it may
	KindGather                  // both: Gather
	KindFetch                   // both: Fetch
	KindQuit                    // keeper: a task wants the step to be over: the number is its rank, and its words follow
)

// AllTasks stands for all tasks of a node.
const AllTasks = 0xffffffff

// Onlooker is the place among the nodes of who is none of them, and only wants to hear what they say and to write to the tasks.
const Onlooker = 0xffffffff

// Window is how many bytes of stdin may be on their way to one node: more waits until the tasks have read.
const Window = 512 << 10

const maxFrame = 8 << 20

// Frame is one of them.
type Frame struct {
	Kind   Kind
	Number uint32
	Data   []byte
}

// Peer is one end of the talk between a keeper and its launcher. Send may be called from several goroutines.
type Peer struct {
	c  net.Conn
	mu sync.Mutex
}

// PeerOf is a talk that needs no proof: with a program that this one has started.
func PeerOf(c net.Conn) *Peer { return &Peer{c: c} }

// Send writes a frame. It waits as long as the other side does not read.
func (p *Peer) Send(k Kind, number uint32, data []byte) error {
	head := make([]byte, 9, 9+len(data))
	head[0] = byte(k)
	binary.BigEndian.PutUint32(head[1:], number)
	binary.BigEndian.PutUint32(head[5:], uint32(len(data)))
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.c.Write(append(head, data...))
	return err
}

// SendWithin is Send that gives the other side no longer than this.
func (p *Peer) SendWithin(limit time.Duration, k Kind, number uint32, data []byte) error {
	p.c.SetWriteDeadline(time.Now().Add(limit))
	return p.Send(k, number, data)
}

// Reachable is where others reach who is on the other side, should it listen. own are the addresses of this host, and boot is its name:
// they count if the other side is on it too.
func (p *Peer) Reachable(own []string, boot string) *Launcher {
	host, _, err := net.SplitHostPort(p.c.RemoteAddr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
		return &Launcher{Addresses: []string{"", host}}
	}
	return &Launcher{Addresses: own, Boot: boot}
}

// Tell sends a message as a frame.
func (p *Peer) Tell(k Kind, number uint32, m interface{ MarshalVT() ([]byte, error) }) error {
	data, err := m.MarshalVT()
	if err != nil {
		return err
	}
	return p.Send(k, number, data)
}

// Next reads a frame.
func (p *Peer) Next() (Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(p.c, head[:]); err != nil {
		return Frame{}, err
	}
	size := binary.BigEndian.Uint32(head[5:])
	if size > maxFrame {
		return Frame{}, fmt.Errorf("a frame of %d bytes is larger than the %d that are taken here", size, maxFrame)
	}
	f := Frame{Kind(head[0]), binary.BigEndian.Uint32(head[1:]), make([]byte, size)}
	_, err := io.ReadFull(p.c, f.Data)
	return f, err
}

// Close ends the talk.
func (p *Peer) Close() error { return p.c.Close() }

// Both sides prove that they know the token, and neither tells it: each sends a nonce, and answers the other's with a hash of it,
// the token, and what it is.

const (
	nonceSize = 32
	proofTime = 20 * time.Second
)

func proof(token []byte, who string, theirs, ours []byte, node uint32) []byte {
	h := hmac.New(sha256.New, token)
	h.Write([]byte(who))
	h.Write(theirs)
	h.Write(ours)
	h.Write(binary.BigEndian.AppendUint32(nil, node))
	return h.Sum(nil)
}

var errStranger = errors.New("the other side does not know the step's token")

// Greet is the keeper's side of the proof, for a connection it has made: node is its place among the step's nodes.
func Greet(c net.Conn, token []byte, node uint32) (*Peer, error) {
	c.SetDeadline(time.Now().Add(proofTime))
	ours := make([]byte, nonceSize)
	rand.Read(ours)
	hello := binary.BigEndian.AppendUint32(append([]byte(nil), ours...), node)
	if _, err := c.Write(hello); err != nil {
		return nil, err
	}
	theirs := make([]byte, nonceSize+sha256.Size)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return nil, err
	}
	if !hmac.Equal(theirs[nonceSize:], proof(token, "launcher", ours, theirs[:nonceSize], node)) {
		return nil, errStranger
	}
	if _, err := c.Write(proof(token, "keeper", theirs[:nonceSize], ours, node)); err != nil {
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return &Peer{c: c}, nil
}

// Meet is the launcher's side, for a connection that was made to it. It returns which node has come.
func Meet(c net.Conn, token []byte) (p *Peer, node uint32, err error) {
	c.SetDeadline(time.Now().Add(proofTime))
	hello := make([]byte, nonceSize+4)
	if _, err := io.ReadFull(c, hello); err != nil {
		return nil, 0, err
	}
	theirs := hello[:nonceSize]
	node = binary.BigEndian.Uint32(hello[nonceSize:])
	ours := make([]byte, nonceSize)
	rand.Read(ours)
	if _, err := c.Write(append(append([]byte(nil), ours...), proof(token, "launcher", theirs, ours, node)...)); err != nil {
		return nil, 0, err
	}
	sum := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, sum); err != nil {
		return nil, 0, err
	}
	if !hmac.Equal(sum, proof(token, "keeper", ours, theirs, node)) {
		return nil, 0, errStranger
	}
	c.SetDeadline(time.Time{})
	return &Peer{c: c}, node, nil
}
