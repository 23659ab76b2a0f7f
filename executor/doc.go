// Package executor is the part of a node that speaks with the log: it learns what should run on its node, has the
// node's supervisor (package executor/supervisor) start and end it, and tells the log what happened.
//
// It is level-triggered. On a nudge, on a connection and with every beat it asks what should run on the node, and compares
// the answer with what runs; nothing depends on having heard any one message. The answer is always at least as new as
// anything this executor has seen or written, so that it never acts on an older state than it knows.
//
// What happens on the node waits with the supervisor until it is in the log and has been folded there: an exit is
// acknowledged only when an answer shows the run over. So an executor may be killed at any time, and the bus may be away
// for any time; everything is said once it is back.
//
//	executor.go   Run: the loop, and what it holds
//	reconcile.go  comparing what should run with what runs
//	report.go     facts on their way into the log, fenced
//	steps.go      what the supervisor tells
//	prepare.go    from a job in the log to a launch; environ.go, pattern.go, login.go its parts
//	inventory.go  what the node has: processors, memory, devices
package executor
