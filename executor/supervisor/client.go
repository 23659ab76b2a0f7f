package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// ErrLost says that the connection to the supervisor is gone. What was asked may or may not have been done: a List or a
// Watch tells.
var ErrLost = errors.New("the connection to the supervisor is lost")

// Client is a connection to a supervisor. Its methods may be called by many goroutines.
type Client struct {
	conn net.Conn

	mu      sync.Mutex
	out     []byte
	next    uint64
	pending map[uint64]func(*Reply)
	err     error
	lost    chan struct{}
	send    chan struct{}
}

// Dial connects to the supervisor that listens at path.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	near, release, err := shortened(path)
	if err != nil {
		return nil, fmt.Errorf("reaching the supervisor: %w", err)
	}
	conn, err := d.DialContext(ctx, "unix", near)
	release()
	if err != nil {
		return nil, fmt.Errorf("reaching the supervisor: %w", err)
	}
	c := &Client{conn: conn, pending: map[uint64]func(*Reply){}, lost: make(chan struct{}), send: make(chan struct{}, 1)}
	go c.read()
	go c.write()
	return c, nil
}

// Lost is closed when the connection is gone.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close ends the connection. Calls that wait return ErrLost.
func (c *Client) Close() error {
	c.fail(ErrLost)
	return nil
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	var pending map[uint64]func(*Reply)
	if first {
		c.err, pending, c.pending = err, c.pending, nil
		close(c.lost)
	}
	c.mu.Unlock()
	c.conn.Close()
	for _, f := range pending {
		f(nil)
	}
}

func (c *Client) read() {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		var rep Reply
		if err := readMessage(r, &rep); err != nil {
			c.fail(fmt.Errorf("%w: %v", ErrLost, err))
			return
		}
		c.mu.Lock()
		f := c.pending[rep.Id]
		c.mu.Unlock()
		if f != nil {
			f(&rep)
		}
	}
}

func (c *Client) write() {
	for {
		select {
		case <-c.send:
		case <-c.lost:
			return
		}
		c.mu.Lock()
		b := c.out
		c.out = nil
		c.mu.Unlock()
		if len(b) == 0 {
			continue
		}
		if _, err := c.conn.Write(b); err != nil {
			c.fail(fmt.Errorf("%w: %v", ErrLost, err))
			return
		}
	}
}

// ask sends a request. answer is called for each reply to it, on the reader's goroutine, and with nil when the
// connection is lost.
func (c *Client) ask(req *Request, answer func(*Reply)) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.next++
	req.Id = c.next
	if c.out, err = appendMessage(c.out, req); err != nil {
		return 0, err
	}
	c.pending[req.Id] = answer
	select {
	case c.send <- struct{}{}:
	default:
	}
	return req.Id, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// call sends a request and waits for its one reply.
func (c *Client) call(ctx context.Context, req *Request) (*Reply, error) {
	got := make(chan *Reply, 1)
	id, err := c.ask(req, func(r *Reply) {
		select {
		case got <- r:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer c.forget(id)
	select {
	case r := <-got:
		if r == nil {
			return nil, ErrLost
		}
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Launch starts a step. A launch that fails is no error: Launched.Failure says why, and with any failure but JOURNAL,
// INVALID, NOT_PERMITTED, STOPPING and ALREADY an Exited follows on the Watch.
func (c *Client) Launch(ctx context.Context, l *Launch) (*Launched, error) {
	r, err := c.call(ctx, &Request{Verb: &Request_Launch{l}})
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", idOf(l.Key), err)
	}
	return r.GetLaunched(), nil
}

func (c *Client) reached(ctx context.Context, req *Request, what string, args ...any) (int, error) {
	r, err := c.call(ctx, req)
	if err != nil {
		return 0, fmt.Errorf(what+": %w", append(args, err)...)
	}
	return int(r.GetDone().GetReached()), nil
}

// Signal sends a signal and returns how many processes it reached. Steps that do not run are no error.
func (c *Client) Signal(ctx context.Context, v *Signal) (int, error) {
	return c.reached(ctx, &Request{Verb: &Request_Signal{v}}, "signalling job %d", v.Job)
}

// Suspend stops the steps of a run and their time limits, or with Resume continues them. It returns how many steps
// changed.
func (c *Client) Suspend(ctx context.Context, v *Suspend) (int, error) {
	return c.reached(ctx, &Request{Verb: &Request_Suspend{v}}, "suspending or resuming job %d", v.Job)
}

// Terminate ends steps, and returns how many there were. It does not wait for their end.
func (c *Client) Terminate(ctx context.Context, v *Terminate) (int, error) {
	return c.reached(ctx, &Request{Verb: &Request_Terminate{v}}, "terminating job %d", v.Job)
}

// SetLimit moves the time limit of a run. It returns how many steps it reached in time.
func (c *Client) SetLimit(ctx context.Context, v *SetLimit) (int, error) {
	return c.reached(ctx, &Request{Verb: &Request_SetLimit{v}}, "moving the time limit of job %d", v.Job)
}

// Look asks what steps of a run use at this moment.
func (c *Client) Look(ctx context.Context, l *Look) (*Looked, error) {
	r, err := c.call(ctx, &Request{Verb: &Request_Look{l}})
	if err != nil {
		return nil, err
	}
	return r.GetLooked(), nil
}

// Acknowledge says that the ends of these steps are safe elsewhere: they are not reported any more.
func (c *Client) Acknowledge(ctx context.Context, keys ...*Key) error {
	_, err := c.reached(ctx, &Request{Verb: &Request_Acknowledge{&Acknowledge{Keys: keys}}}, "acknowledging %d exits", len(keys))
	return err
}

// List returns what runs, and the ends not yet acknowledged.
func (c *Client) List(ctx context.Context) (*Listed, error) {
	r, err := c.call(ctx, &Request{Verb: &Request_List{&List{}}})
	if err != nil {
		return nil, fmt.Errorf("listing the steps of the supervisor: %w", err)
	}
	return r.GetListed(), nil
}

// Upgrade makes the supervisor become the binary at path (empty: the one it was started from, which may be newer by
// now), and returns when it is about to; the connection is lost then. Steps go on.
func (c *Client) Upgrade(ctx context.Context, path string) error {
	_, err := c.reached(ctx, &Request{Verb: &Request_Upgrade{&Upgrade{Path: path}}}, "upgrading the supervisor")
	return err
}

// Stop ends the supervisor. In mode REFUSE_IF_BUSY it is an error that steps run.
func (c *Client) Stop(ctx context.Context, mode StopMode) error {
	_, err := c.reached(ctx, &Request{Verb: &Request_Stop{&Stop{Mode: mode}}}, "stopping the supervisor")
	return err
}

// Event is one thing a Watch tells. Exactly one field is set; Caught comes once, when all that was known when the watch
// began has been told.
type Event struct {
	Started *Started
	Exited  *Exited
	Sample  *Sample
	Caught  bool
}

// Watch tells of everything that runs and every end not acknowledged, and then of what happens, until the connection
// is lost or ctx is done; its channel is closed then. An end is told again on the next Watch until it is acknowledged.
func (c *Client) Watch(ctx context.Context) (<-chan Event, error) {
	line := newWatcher()
	id, err := c.ask(&Request{Verb: &Request_Watch{&Watch{}}}, func(r *Reply) {
		if r == nil {
			line.finish()
			return
		}
		line.put(r)
	})
	if err != nil {
		return nil, fmt.Errorf("watching the supervisor: %w", err)
	}
	events := make(chan Event, 64)
	stop := context.AfterFunc(ctx, line.close)
	go func() {
		defer close(events)
		defer c.forget(id)
		defer stop()
		for {
			batch := line.take()
			if batch == nil {
				return
			}
			for _, r := range batch {
				e := Event{Started: r.GetStarted(), Exited: r.GetExited(), Sample: r.GetSample(), Caught: r.GetCaught() != nil}
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return events, nil
}
