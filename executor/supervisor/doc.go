// Package supervisor is the one small process per node that is the parent of all its steps.
//
// It outlives the executor, which may come and go and be killed without a step noticing: the executor is a client of the
// supervisor's unix socket (Dial). It forks the steps directly, with no shepherd between, learns their exact exit
// status, ends them when their time is up even when nobody else is alive, and keeps a journal, so that
//
//   - a step is started at most once, whatever is killed when;
//   - an exit is reported until the executor has acknowledged it;
//   - a supervisor that is itself killed leaves its steps running, and the next one finds them again, by journal, control
//     group and start time;
//   - the supervisor becomes a newer version of itself by exec, in the same process, the steps still its children.
//
// # Where things are
//
//	supervisor.go  Main, its configuration, and what it holds
//	server.go      the socket; client.go the other end of it; watch.go who hears of starts and exits
//	launch.go      how a process is made: thread.go the threads prepared for it, stdio.go its files, spool.go its script
//	step.go        a step from launch to end; deadline.go when it is told to end; reap.go how its end is seen
//	tree.go        which processes belong to a step; cage.go what holds them
//	journal.go     the record of all this; recover.go how it is read again; upgrade.go how it is handed over
//
// # How a step is made
//
// On a thread of its own, prepared once (own umask and working directory, the node's host name): the control group is
// made, the user's files are opened with the user's rights, and one fork with exec follows, in the group from the first
// instruction on. The child stops at the exec (a trace stop, which costs too little to measure): limits are set, and the
// journal knows it by pid and start time before it runs.
package supervisor
