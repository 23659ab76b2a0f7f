package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"

	"stint/cli/slurm"
	"stint/executor/tasks"
)

// What the site has to say to srun.

// siteSays takes over what the site says where the user has said nothing: WaitTime, KillOnBadExit, SrunProlog, SrunEpilog,
// MpiDefault.
func (l *launcher) siteSays(site *tasks.Site) {
	s := l.s
	if !s.WaitGiven {
		s.Wait = int(site.GetWaitS())
	}
	if !s.KillGiven {
		s.KillOnBad = site.GetKillOnBad()
	}
	if s.Prolog == "" {
		s.Prolog = site.GetProlog()
	}
	if s.Epilog == "" {
		s.Epilog = site.GetEpilog()
	}
	if s.MPI == "" {
		s.MPI, l.mpiByDefault = slurm.MPIKind(site.GetMpi()), true
	}
}

// listenWithin opens another port in place of the first one, a free one of the site's SrunPortRange.
func (l *launcher) listenWithin(c *component, text string) error {
	c.listener.Close()
	opened, err := listenIn(text)
	if err != nil {
		return err
	}
	c.listener = opened
	go l.accept(c, opened)
	return nil
}

// listenIn opens a free port of a range. They are tried from a random one on, as there may be many launchers.
func listenIn(text string) (net.Listener, error) {
	from, to, ok := tasks.PortRange(text)
	if !ok {
		return nil, fmt.Errorf("SrunPortRange=%s is no range of ports", text)
	}
	conf := net.ListenConfig{}
	conf.SetMultipathTCP(false)
	count := to - from + 1
	first := rand.Uint32N(count)
	for i := range count {
		port := from + (first+i)%count
		if opened, err := conf.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port)); err == nil {
			return opened, nil
		}
	}
	return nil, fmt.Errorf("no port of SrunPortRange=%s is free on this host for the tasks' input and output", text)
}

// around runs a program of the site or the user here, before the step or after it, with the command's words as arguments.
// What it ends with does not count.
func (l *launcher) around(program, context string, environ [][]byte) {
	if program == "" || strings.EqualFold(program, "none") {
		return
	}
	cmd := exec.Command(program, l.s.Command...)
	for _, nv := range environ {
		cmd.Env = append(cmd.Env, string(nv))
	}
	cmd.Env = append(cmd.Env, "SLURM_SCRIPT_CONTEXT="+context)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.w.Dir, l.w.Stdout, l.w.Stderr
	if err := cmd.Run(); err != nil {
		l.say("%s %s: %v", context, program, err)
	}
}
