package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"stint/events"
	"stint/projections"
)

// triggers runs the programs of triggers that were pulled: on this host, as whoever set them, with the site's word of what it is
// about as the last argument. That a trigger is pulled is a fact in the log. Only the controller whose fact it is runs the program, as
// that comes back to it through the log: so no program runs twice, and one that dies between the two has one less to show for it.
type triggers struct {
	log  *slog.Logger
	dir  string // the cluster's, for the commands that a program calls
	room chan struct{}
	open sync.WaitGroup // programs that are to be started
}

const (
	triggerTime  = 5 * time.Minute // that a program may take, as in Slurm
	triggersMost = 64              // programs at a time
)

func newTriggers(log *slog.Logger, dir string) *triggers {
	return &triggers{log: log, dir: dir, room: make(chan struct{}, triggersMost)}
}

// pull starts programs, each in its own time. They outlive a controller that ends.
func (t *triggers) pull(list []projections.Pulled) {
	for _, p := range list {
		t.open.Add(1)
		go func() {
			started := sync.OnceFunc(t.open.Done)
			defer started()
			t.room <- struct{}{}
			defer func() { <-t.room }()
			if err := t.run(p, started); err != nil {
				t.log.Warn("the program of a trigger", "trigger", p.Trigger.GetId(), "user", p.Trigger.GetOwner().GetUser(), "program", p.Trigger.GetProgram(), "error", err)
			}
		}()
	}
}

// wait waits until all programs have been started that were to be, for a moment at most.
func (t *triggers) wait() {
	done := make(chan struct{})
	go func() { t.open.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// run runs one program to its end, or until its time is over; then whatever it started and left in its group ends too. started is
// called once it runs.
func (t *triggers) run(p projections.Pulled, started func()) error {
	owner := p.Trigger.GetOwner()
	words := strings.Fields(p.Trigger.GetProgram())
	if len(words) == 0 {
		return errors.New("it names no program")
	}
	t.log.Info("a trigger is pulled", "trigger", p.Trigger.GetId(), "user", owner.GetUser(), "program", p.Trigger.GetProgram(), "argument", p.Argument)
	ctx, cancel := context.WithTimeout(context.Background(), triggerTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], p.Argument)...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	path := "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	cmd.Env = []string{"HOME=" + homeOf(ctx, owner), "USER=" + owner.GetUser(), "LOGNAME=" + owner.GetUser()}
	if t.dir != "" {
		path = t.dir + "/bin:" + path
		cmd.Env = append(cmd.Env, "STINT_DIR="+t.dir)
	}
	cmd.Env = append(cmd.Env, "PATH="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch me := os.Geteuid(); {
	case me == 0:
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.GetUid(), Gid: owner.GetGid(), Groups: owner.GetGroups()}
	case uint32(me) != owner.GetUid():
		return fmt.Errorf("this controller does not run as root, so it runs no program of %s", owner.GetUser())
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said bytes.Buffer
	cmd.Stderr = &limitedWriter{&said, 4096}
	err := cmd.Start()
	started()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// homeOf is a user's home directory as the host's name service knows it; the root directory where it does not.
func homeOf(ctx context.Context, owner *events.Owner) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "passwd", fmt.Sprint(owner.GetUid())).Output()
	if f := strings.Split(strings.TrimSpace(string(out)), ":"); err == nil && len(f) == 7 {
		return f[5]
	}
	return "/"
}
