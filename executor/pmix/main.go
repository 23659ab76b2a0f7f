//go:build cgo && pmix

// Command stint-pmix is the PMIx server of a step on one node: it speaks with PMIx's library for the keeper of the step, which has
// started it (executor/tasks). It is a program of its own because the library is reached through C: the rest of Stint is static, and
// a library that crashes takes only the step with it. It runs as the step's user, and is over when the keeper closes its end.
//
// What nodes have to tell each other the keeper carries: the data of a fence (Gather), and what a task has published that another
// node asks for (Fetch).
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"stint/executor/tasks"
)

func main() {
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the keeper at the other end of descriptor 3.
func run() error {
	file := os.NewFile(3, "keeper")
	c, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("it is started by the keeper of a step, with a socket as descriptor 3: %w", err)
	}
	file.Close()
	keeper := tasks.PeerOf(c)
	f, err := keeper.Next()
	if err != nil {
		return fmt.Errorf("the keeper says nothing: %w", err)
	}
	order := &tasks.PmixOrder{}
	if f.Kind != tasks.KindBegin || order.UnmarshalVT(f.Data) != nil || int(order.Node) >= len(order.Mpi.GetPlaces()) {
		return fmt.Errorf("what the keeper says first cannot be read")
	}
	s := newServer(keeper, order)
	ready := &tasks.PmixReady{}
	if ready.Tasks, err = s.start(); err != nil {
		ready = &tasks.PmixReady{Failed: err.Error()}
	}
	if err := keeper.Tell(tasks.KindStarted, 0, ready); err != nil || ready.Failed != "" {
		return err
	}
	s.serve()
	return nil
}
