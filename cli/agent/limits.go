package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"stint/cli/slurm/conf"
	"stint/cli/wire"
)

// Limits hold each user of the host, root and the cluster's own user included, to what one user may ask for at once.
// Zero values mean the defaults.
type Limits struct {
	Connections int     // open at a time; default 256, and at most an eighth of the files that this process may open
	Everybody   int     // connections of all users together; default half of those files
	Rate        float64 // intents a second, on average; default 2,000
	Burst       int     // intents at once; default 20,000
	Script      int     // bytes of a script; default 4 MiB, as Slurm's max_script_size
	Environment int     // bytes of an environment; default 4 MiB
	Bytes       int     // of requests that are on their way; more of them wait. Default 128 MiB; a single one is always taken
}

func (l Limits) filled() Limits {
	files := openFiles()
	if l.Connections == 0 {
		l.Connections = max(4, min(256, files/8))
	}
	if l.Everybody == 0 {
		l.Everybody = max(16, files/2)
	}
	if l.Rate == 0 {
		l.Rate = 2000
	}
	if l.Burst == 0 {
		l.Burst = 20_000
	}
	if l.Script == 0 {
		l.Script = 4 << 20
	}
	if l.Environment == 0 {
		l.Environment = 4 << 20
	}
	if l.Bytes == 0 {
		l.Bytes = 2 * wire.MaxFrame
	}
	return l
}

// openFiles is how many files this process may have open.
func openFiles() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<20))
}

// limiter counts what each user does.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu          sync.Mutex
	users       map[uint32]*allowance
	connections int // of all
}

type allowance struct {
	connections int
	intents     bucket
	requests    bucket
	logged      time.Time // when the log last had a line of the requests that were too many
	bytes       int
	freed       chan struct{} // closed when bytes become fewer; nil: nobody waits for it
}

func newLimiter(l Limits) *limiter {
	return &limiter{limits: l.filled(), now: time.Now, users: map[uint32]*allowance{}}
}

func (l *limiter) user(uid uint32) *allowance {
	u := l.users[uid]
	if u == nil {
		u = &allowance{}
		l.users[uid] = u
	}
	return u
}

// connect counts a connection until release is called; if the user, or all together, have too many, it returns why not.
func (l *limiter) connect(uid uint32) (release func(), no string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.user(uid)
	switch {
	case u.connections >= l.limits.Connections:
		return nil, fmt.Sprintf("you have %d connections to the agent open, which is the most it allows; let some end first", u.connections)
	case l.connections >= l.limits.Everybody:
		return nil, fmt.Sprintf("%d connections to the agent are open, which is the most it has files for (ulimit -n); try again when some have ended", l.connections)
	}
	u.connections++
	l.connections++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.connections--
		l.connections--
	}, ""
}

// hold counts n bytes of a request until release is called. It waits as long as the user has too many on their way already;
// false: ctx has ended first.
func (l *limiter) hold(ctx context.Context, uid uint32, n int) (release func(), ok bool) {
	for {
		l.mu.Lock()
		u := l.user(uid)
		if u.bytes == 0 || u.bytes+n <= l.limits.Bytes {
			u.bytes += n
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				u.bytes -= n
				if u.freed != nil {
					close(u.freed)
					u.freed = nil
				}
			}, true
		}
		if u.freed == nil {
			u.freed = make(chan struct{})
		}
		freed := u.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// bucket is tokens that are taken at once and come back bit by bit. The zero value is full.
type bucket struct {
	taken float64
	at    time.Time
}

// take takes n tokens of at most size, which come back at a rate a second; if there are fewer, nothing is taken and wait says how
// long it takes until there are n.
func (b *bucket) take(now time.Time, n, size, rate float64) (wait time.Duration, ok bool) {
	b.taken, b.at = max(0, b.taken-now.Sub(b.at).Seconds()*rate), now
	if missing := b.taken + n - size; missing > 0 {
		return time.Duration(missing / rate * float64(time.Second)), false
	}
	b.taken += n
	return 0, true
}

// take takes n intents from a user's allowance; if it holds fewer, nothing is taken and wait says how long it takes
// until it holds n.
func (l *limiter) take(uid uint32, n int) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user(uid).intents.take(l.now(), float64(n), float64(l.limits.Burst), l.limits.Rate)
}

// request takes one request from a user's allowance as the site has it. If there is none left, nothing is taken, and log says
// whether the log is to have a line about it now.
func (l *limiter) request(uid uint32, r conf.Requests) (ok, log bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.user(uid), l.now()
	if _, ok = u.requests.take(now, 1, float64(r.Bucket), r.PerSecond()); ok || r.Log < 0 {
		return ok, false
	}
	if log = now.Sub(u.logged) >= r.Log; log {
		u.logged = now
	}
	return false, log
}
