package tasks

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A keeper that takes a file in (sbcast). It writes into a file of another name beside the place, which the user sees only when all of it
// is there and its sum is right. It may pass on to other nodes what comes, as it comes; they prove that they know the token as all do.

// receive takes a file in, and ends with 0, or with the number of the system's error.
func (k *keeper) receive(r *Receive) (syscall.WaitStatus, error) {
	var relay *relay
	from := k.peer
	if r.Relays {
		var err error
		if relay, err = k.relayFor(int(r.Children)); err != nil {
			return k.received(err)
		}
		defer relay.listener.Close()
	}
	if r.From != nil {
		p, err := Reach(r.From, k.order.Node)
		if err != nil {
			return k.received(err)
		}
		from = p
	}
	if relay != nil {
		relay.gather()
	}
	err := takeFile(from, r, relay)
	if from != k.peer {
		from.Close()
	}
	if relay != nil {
		relay.end()
	}
	return k.received(err)
}

// received tells the launcher how it went.
func (k *keeper) received(err error) (syscall.WaitStatus, error) {
	told := &Told{Tasks: []uint32{k.order.Node}}
	if err != nil {
		told.Code, told.Text = uint32(syscall.EIO), err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			told.Code, told.Text = uint32(errno), capital(errno.Error())
		}
	}
	k.peer.Tell(KindExited, 0, told)
	k.peer.Send(KindOver, 0, nil)
	for { // to close with something unread would take the word back
		if _, err := k.peer.Next(); err != nil {
			return syscall.WaitStatus(told.Code&0x7f) << 8, nil
		}
	}
}

// takeFile writes what comes into the file.
func takeFile(from *Peer, r *Receive, relay *relay) (err error) {
	path := string(r.Path)
	var write io.Writer = io.Discard
	var file *os.File
	if st, serr := os.Stat(path); serr == nil && st.IsDir() {
		err = syscall.EISDIR
	} else if serr == nil && !r.Force {
		err = syscall.EEXIST
	} else if file, err = os.CreateTemp(filepath.Dir(path), ".sbcast-*"); err == nil {
		write = file
		defer os.Remove(file.Name())
		defer file.Close()
	}
	sum := sha256.New()
	for { // to the end, also with an error: others may hang on it
		f, nerr := from.Next()
		if nerr != nil {
			return fmt.Errorf("the file has not come to its end: %w", nerr)
		}
		if relay != nil {
			relay.pass(f)
		}
		switch f.Kind {
		case KindData:
			data := f.Data
			if f.Number == 1 {
				var derr error
				if data, derr = io.ReadAll(flate.NewReader(bytes.NewReader(f.Data))); derr != nil && err == nil {
					err = derr
				}
			}
			sum.Write(data)
			if err == nil {
				_, err = write.Write(data)
			}
		case KindSum:
			if err == nil && !bytes.Equal(f.Data, sum.Sum(nil)) {
				err = errors.New("what came is not what was sent: its sum is another")
			}
			if err != nil {
				return err
			}
			return settle(file, path, r)
		}
	}
}

// settle gives a complete file its mode, its times and its name.
func settle(f *os.File, path string, r *Receive) error {
	if err := f.Chmod(os.FileMode(r.Mode & 0o7777)); err != nil {
		return err
	}
	if r.ChangeNs != 0 {
		if err := os.Chtimes(f.Name(), time.Unix(0, r.AccessNs), time.Unix(0, r.ChangeNs)); err != nil {
			return err
		}
	}
	if r.Force {
		return os.Rename(f.Name(), path)
	}
	return unix.Link(f.Name(), path) // not over a file that has come there meanwhile
}

// relay passes a file on to other nodes.
type relay struct {
	listener net.Listener
	want     int
	come     chan *Peer
	peers    []*Peer
	lines    []chan Frame
	sending  sync.WaitGroup
}

const (
	relayTime = 60 * time.Second
	relayLine = 4 // frames that wait for a slow one
)

// relayFor opens a port for so many others, and tells the launcher.
func (k *keeper) relayFor(children int) (*relay, error) {
	c := net.ListenConfig{}
	c.SetMultipathTCP(false)
	l, err := c.Listen(context.Background(), "tcp", ":0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, want: children, come: make(chan *Peer)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if p, _, err := Meet(c, k.order.Launcher.Token); err != nil {
					c.Close()
				} else {
					r.come <- p
				}
			}()
		}
	}()
	return r, k.peer.Tell(KindStarted, 0, &Told{Code: uint32(l.Addr().(*net.TCPAddr).Port)})
}

// gather waits for the others, a while: one that does not come is found out by the launcher.
func (r *relay) gather() {
	late := time.NewTimer(relayTime)
	defer late.Stop()
	for len(r.peers) < r.want {
		select {
		case p := <-r.come:
			line := make(chan Frame, relayLine)
			r.peers, r.lines = append(r.peers, p), append(r.lines, line)
			r.sending.Go(func() {
				gone := false
				for f := range line {
					gone = gone || p.Send(f.Kind, f.Number, f.Data) != nil
				}
			})
		case <-late.C:
			return
		}
	}
}

func (r *relay) pass(f Frame) {
	for _, l := range r.lines {
		l <- f
	}
}

// end waits until all has gone to the others, and they have closed.
func (r *relay) end() {
	for _, l := range r.lines {
		close(l)
	}
	r.sending.Wait()
	for _, p := range r.peers {
		p.c.SetReadDeadline(time.Now().Add(relayTime))
		p.Next()
		p.Close()
	}
}
