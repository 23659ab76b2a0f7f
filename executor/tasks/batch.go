package tasks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BatchCommand is the word by which a program of Stint's becomes what runs a batch script between TaskProlog and TaskEpilog. Behind it
// come the two, empty where there is none, the script and its arguments.
const BatchCommand = "batch-task"

// IsBatch says whether a program was called to be that.
func IsBatch(args []string) bool { return len(args) >= 5 && args[1] == BatchCommand }

// BatchMain runs the script. Without an epilog it becomes the script; else it passes signals on and ends as the script does.
func BatchMain(args []string) int {
	prolog, epilog, argv := args[2], args[3], args[4:]
	env := os.Environ()
	tell := func(what, program string, err error) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "slurmstepd: error: the %s %s: %v\n", what, program, err)
		}
	}
	if prolog != "" {
		cmd := exec.Command(prolog)
		cmd.Env = env
		out, err := cmd.Output()
		tell("prolog", prolog, err)
		env = changed(env, string(out), func(text string) { fmt.Println(text) })
	}
	if epilog == "" {
		err := syscall.Exec(argv[0], argv, env)
		fmt.Fprintf(os.Stderr, "slurmstepd: error: execve(): %s: %v\n", argv[0], err)
		return 1
	}
	heard := make(chan os.Signal, 64)
	signal.Notify(heard)
	signal.Reset(syscall.SIGCHLD, syscall.SIGURG)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "slurmstepd: error: execve(): %s: %v\n", argv[0], err)
		return 1
	}
	go func() {
		for s := range heard {
			cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	after := exec.Command(epilog)
	after.Env, after.Stderr = env, os.Stderr
	tell("epilog", epilog, after.Run())
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	ws := exit.Sys().(syscall.WaitStatus)
	if !ws.Signaled() {
		return ws.ExitStatus()
	}
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // end alike, without a core of its own
	signal.Reset()
	byDefault(ws.Signal())
	unix.Kill(os.Getpid(), ws.Signal())
	time.Sleep(time.Second)
	return 128 + int(ws.Signal())
}
