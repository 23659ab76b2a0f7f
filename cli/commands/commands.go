// Package commands is what runs behind each of Slurm's names: one round trip on the agent's socket, and what is printed.
// The grammar is cli/slurm's. The package is linked into the light client, so it imports nothing of the bus.
package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events"
)

// World is what a command sees of its surroundings.
type World struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // NAME=value
	Dir     string   // working directory, absolute; "" if it is gone
	Now     time.Time
	State   string // directory of the cluster
	Host    string
	Uid     uint32 // who calls
	Nice    int    // of this process
	Users   Users
	Wait    func(time.Duration) time.Time // lets time pass and returns what time it is then

	// Terminal says whether a person sits before Stdin; nil: it is asked itself.
	Terminal func() bool

	conn   *wire.Conn
	told   time.Time // which run, by its Now, was told last that an answer is old
	called []string  // the command line
	conf   string    // path of slurm.conf, as the agent told
	yaml   bool      // answers for programs are YAML, not JSON
}

// Process is the world of this process.
func Process() *World {
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &World{
		Host: host, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now(), State: wire.Dir(),
		Uid: uint32(os.Getuid()), Nice: niceness(), Users: hostUsers(), Wait: func(d time.Duration) time.Time { time.Sleep(d); return time.Now() },
	}
}

// Getenv returns a variable's value, "" if it is not set.
func (w *World) Getenv(name string) string {
	for _, nv := range slices.Backward(w.Environ) {
		if v, ok := strings.CutPrefix(nv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Release is the release of Slurm that is emulated: what the cluster says, unless STINT_COMPAT says otherwise.
func (w *World) Release() slurm.Release {
	text := w.Getenv("STINT_COMPAT")
	if text == "" {
		data, err := os.ReadFile(filepath.Join(w.State, wire.CompatFile))
		if err == nil {
			text = strings.TrimSpace(string(data))
		}
	}
	r, ok := slurm.ParseRelease(text)
	if !ok {
		r = slurm.Release2605
	}
	return r
}

// pause waits a little before a request that the agent had no room for is made again.
func (w *World) pause() { w.Now = w.Wait(500 * time.Millisecond) }

// dial connects to the host's agent. Its notes go to stderr under the command's name.
func (w *World) dial(command string) (*wire.Conn, error) {
	c, err := wire.Dial(w.State)
	if err != nil {
		return nil, err
	}
	c.Note = func(text string) { fmt.Fprintf(w.Stderr, "%s: %s\n", command, text) }
	return c, nil
}

// Run runs a command with its arguments and returns its exit code.
func Run(name string, args []string, w *World) int {
	c := find(name)
	if c == nil {
		fmt.Fprintf(w.Stderr, "stint: there is no command %s\n", name)
		return 1
	}
	w.called = append([]string{name}, args...)
	return c.run(args, w)
}

// Sbatch is Run of sbatch, for a program that has no other command.
func Sbatch(args []string, w *World) int {
	w.called = append([]string{"sbatch"}, args...)
	return sbatch(args, w)
}

// complain prints why a command line was refused and returns the exit code.
func (w *World) complain(command string, err error) int {
	var f *slurm.Failure
	if errors.As(err, &f) {
		io.WriteString(w.Stderr, f.Message(command))
		return f.Exit
	}
	fmt.Fprintf(w.Stderr, "%s: error: %v\n", command, err)
	return 1
}

// badOption tells a value of an option that only the agent could see to be wrong (who is known on its host) from a job that was
// refused: it is a mistake on the command line.
func badOption(err error) *slurm.Failure {
	var no *wire.Refused
	if errors.As(err, &no) && no.Code == events.Code_MALFORMED && strings.HasPrefix(no.Text, "Invalid --") {
		return &slurm.Failure{Text: no.Text, Exit: slurm.ExitUsage}
	}
	return nil
}

// unreachable is how Slurm's commands say that nobody answers, which tools look for, and what to do.
const unreachable = "Unable to contact slurm controller (connect failure)"

// why is the sentence for a request that was not met.
func why(err error) string {
	var no *wire.Refused
	switch {
	case errors.Is(err, wire.ErrNoAgent):
		return unreachable + fmt.Sprintf(": %v; is the cluster up? `stint status` tells, `stint up` starts one", err)
	case errors.As(err, &no) && no.Code != events.Code_OK:
		return refused(no.Code, no.Text)
	}
	return err.Error()
}
